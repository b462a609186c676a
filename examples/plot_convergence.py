"""
Convergence of a fit
====================

The methods are ADMM iterations with growing penalty parameters. A fit stops when its residuals are below the tolerance:
the reconstruction error of the samples, and the distance between the representation and its low-rank copy.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(200)
model = tm.TSVDMVC(10, basis="gft-sum", random_state=0).fit(views)
tm.plotting.plot_convergence(model)
plt.show()
