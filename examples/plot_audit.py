"""
Does my clusterer depend on the order of the rows?
==================================================

`audit_order` clusters the same samples in several orders with one seed, and in one order with several seeds. k-means
with a fixed seed looks reproducible, but the seed selects initial centres by row number, so another order starts from
other samples.
"""

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans

import tensormvc as tm

views, y = tm.datasets.load_digits_views(500)
audit = tm.audit_order(KMeans(10, n_init=1, random_state=0), views, n_permutations=10)
print(audit)
tm.plotting.plot_audit(audit)
plt.show()
