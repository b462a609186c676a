"""Work on the rows of arrays, wherever these are: in memory, on disk, on a device, on a Dask cluster. Internal."""

from ._kmeans import kmeans, kmeans_of_rows
from ._memory import (
    Executor,
    InMemory,
    Join,
    Part,
    Work,
    added,
    gathered,
    on_block,
    piece_size,
    pieces,
    row_blocks,
    row_work,
)
from ._random import Draw, SampleRandom, uniform, waves

__all__ = [
    "Draw",
    "Executor",
    "InMemory",
    "Join",
    "Part",
    "SampleRandom",
    "Work",
    "added",
    "gathered",
    "kmeans",
    "kmeans_of_rows",
    "on_block",
    "piece_size",
    "pieces",
    "row_blocks",
    "row_work",
    "uniform",
    "waves",
]
