"""The front door: from views to clusters with nothing to choose."""

from ._estimator import MultiViewClustering

__all__ = ["MultiViewClustering"]
