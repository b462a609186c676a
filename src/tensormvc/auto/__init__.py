"""Multi-view clustering without labels and without parameters to tune."""

from ._estimator import MultiViewClustering

__all__ = ["MultiViewClustering"]
