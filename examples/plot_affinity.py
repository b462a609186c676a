"""
Affinities sorted by cluster
============================

t-SVD-MVC represents every sample by the others; the affinity of two samples is how much they contribute to each other.
With rows and columns sorted by cluster, bright blocks on the diagonal are coherent clusters, and bright spots elsewhere
are samples between two clusters.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(200)
model = tm.TSVDMVC(10, basis="gft-sum", random_state=0, keep="all").fit(views)
tm.plotting.plot_affinity(model.affinity_, model.labels_)
plt.show()
