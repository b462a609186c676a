"""
Affinities, sorted by cluster
=============================

t-SVD-MVC learns how much each sample helps to represent each other. Sorted by the clusters that it found, bright
squares along the diagonal are clusters that hold together; bright spots elsewhere are samples that have two homes.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(200)
model = tm.TSVDMVC(10, basis="gft-sum", random_state=0, keep="all").fit(views)
tm.plotting.plot_affinity(model.affinity_, model.labels_)
plt.show()
