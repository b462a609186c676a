"""Multi-view data: what is embedded, and how it is shuffled."""

from ._digits import load_digits_views
from ._shuffle import shuffle_samples

__all__ = ["load_digits_views", "shuffle_samples"]
