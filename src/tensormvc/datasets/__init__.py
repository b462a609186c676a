"""Load, save, generate, shuffle and summarise multi-view data sets."""

from ._dataset import Dataset
from ._describe import describe
from ._digits import load_digits_views
from ._errors import DataError
from ._load import load_dataset, load_views
from ._save import save_labels, save_views
from ._shuffle import shuffle_samples
from ._synthetic import make_multiview
from .readers._rows import RowSource

__all__ = [
    "DataError", "Dataset", "RowSource", "describe", "load_dataset", "load_digits_views", "load_views",
    "make_multiview", "save_labels", "save_views", "shuffle_samples",
]  # fmt: skip
