"""
The embedding behind the clusters
=================================

k-means makes the clusters of an embedding that the method has found. Its dimensions are as many as the clusters; the
picture shows it along the two directions in which the clusters differ most, so that those which differ elsewhere
overlap.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(300)
model = tm.ESTMC(10, basis="agft", random_state=0).fit(views)
tm.plotting.plot_embedding(model.embedding_, model.labels_)
plt.show()
