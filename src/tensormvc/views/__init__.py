"""Views: input of every form, checked, aligned, and in an order that its values decide. Internal."""

from ._check import check_kind
from ._collect import any_dask, check_lengths, collect, view_sizes_of
from ._dask import ChunkedViews, Chunks, chunked_views, chunks_of, distributed_views
from ._join import Join, join_ids, take_rows
from ._order import mix, row_hashes
from ._tables import Categories, Table, categories_of, encode_table, indicators
from ._views import Views, as_float64, as_views, probes_of

__all__ = [
    "Categories",
    "ChunkedViews",
    "Chunks",
    "Join",
    "Table",
    "Views",
    "any_dask",
    "as_float64",
    "as_views",
    "categories_of",
    "check_kind",
    "check_lengths",
    "chunked_views",
    "chunks_of",
    "collect",
]
__all__ += [
    "distributed_views",
    "encode_table",
    "indicators",
    "join_ids",
    "mix",
    "probes_of",
    "row_hashes",
    "take_rows",
    "view_sizes_of",
]
