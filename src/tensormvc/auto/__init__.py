"""The front door: from views to clusters with nothing to choose."""

from ._estimator import MultiViewClustering
from ._scaling import suggest_scaling

__all__ = ["MultiViewClustering", "suggest_scaling"]
