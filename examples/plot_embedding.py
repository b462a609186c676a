"""
The embedding behind the clusters
=================================

The clusters come from k-means on an embedding with as many dimensions as clusters. The plot shows the two directions in
which the clusters differ most; clusters that differ in other dimensions overlap here.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(300)
model = tm.ESTMC(10, basis="agft", random_state=0).fit(views)
tm.plotting.plot_embedding(model.embedding_, model.labels_)
plt.show()
