"""
A map of the samples
====================

Every dot is a handwritten digit, close to its nearest neighbours in all views together. The numbers are clusters,
found without labels; paler dots are those that the model is less sure of. New samples can be placed on the same map.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views()
model = tm.MultiViewClustering(n_clusters=10, random_state=0).fit(views)
tm.plotting.plot_map(model)
plt.show()
