"""Work on rows, one per sample, wherever they are: in memory, on disk, on a device, on a Dask cluster. Internal."""

from ._kmeans import kmeans, kmeans_of_rows
from ._memory import InMemory, OnDisk, RowArrays, in_memory, piece_size, pieces, row_blocks
from ._protocol import Rows, row_work
from ._random import Draw, SampleRandom, uniform, waves

__all__ = ["Draw", "InMemory", "OnDisk", "RowArrays", "Rows", "SampleRandom", "in_memory", "kmeans"]
__all__ += ["kmeans_of_rows", "piece_size", "pieces", "row_blocks", "row_work", "uniform", "waves"]
