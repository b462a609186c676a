"""
How a fit converges
===================

The methods run in rounds with growing penalties. A fit stops when its residuals are below the tolerance: how far the
representation is from explaining the samples, and from its low-rank twin.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(200)
model = tm.TSVDMVC(10, basis="gft-sum", random_state=0).fit(views)
tm.plotting.plot_convergence(model)
plt.show()
