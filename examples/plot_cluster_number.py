"""
How many clusters there are
===========================

Graphs that see the samples differently agree where the number of clusters is right, and their spectra have a gap there.
No label is used; these samples have five groups.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.make_multiview(200, n_clusters=5, random_state=0)
found = tm.estimate_n_clusters(views)
print(found.statement)
found.plot()
plt.show()
