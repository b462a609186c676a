"""
How many clusters are there?
============================

At the right number of clusters, clusterings of different graphs of the same samples agree, and the spectra of the
graphs have a gap. No labels are used; these samples form five groups.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.make_multiview(200, n_clusters=5, random_state=0)
estimate = tm.estimate_n_clusters(views)
print(estimate.statement)
estimate.plot()
plt.show()
