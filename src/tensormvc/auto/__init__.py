"""Multi-view clustering without labels and without parameters to tune."""

from ._estimator import MultiViewClustering
from ._impute import impute_views
from ._scaling import suggest_scaling

__all__ = ["MultiViewClustering", "impute_views", "suggest_scaling"]
