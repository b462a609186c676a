"""Multi-view data: loaders for files, what is embedded, and how it is shuffled and described."""

from ._digits import load_digits_views
from ._errors import DataError
from ._lazy import RowSource
from ._load import load_views
from ._shuffle import shuffle_samples

__all__ = ["DataError", "RowSource", "load_digits_views", "load_views", "shuffle_samples"]
