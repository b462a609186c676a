"""Multi-view clustering without labels and without parameters to tune."""

from ._estimator import MultiViewClustering
from ._scaling import suggest_scaling

__all__ = ["MultiViewClustering", "suggest_scaling"]
