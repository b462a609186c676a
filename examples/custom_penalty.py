"""
A penalty of your own
=====================

Any object with `value` and `prox` can penalise the singular values. This one is the capped norm ψ(σ) = min(σ, cap):
large singular values, which carry the clusters, are not shrunk at all.
"""

import numpy as np
from sklearn.base import BaseEstimator

import tensormvc as tm


class Capped(BaseEstimator):
    """The capped nuclear norm, ψ(σ) = min(σ, cap)."""

    def __init__(self, cap=1.0):
        self.cap = cap

    def value(self, s):
        """Return ψ(s)."""
        return np.minimum(s, self.cap)

    def prox(self, s, threshold):
        """Return the minimiser over x ≥ 0 of ½(x − s)² + threshold·ψ(x)."""
        jump = self.cap + threshold / 2 if threshold <= 2 * self.cap else np.sqrt(2 * threshold * self.cap)
        return np.where(s > jump, s, np.clip(s - threshold, 0, self.cap))


tm.testing.check_penalty(Capped(cap=2.0))

views, y = tm.datasets.load_digits_views(300)
labels = tm.ESTMC(n_clusters=10, penalty=Capped(cap=0.5), random_state=0).fit_predict(views)
print(f"ESTMC with a capped norm: ACC {tm.metrics.clustering_accuracy(y, labels):.1%}")
