"""Views on a Dask cluster: checked, hashed and brought into working order by the workers.

Chunks are as given, row blocks depend on the number of samples alone. So rows are exchanged once, from chunks to
partitions, in the order of their keys, and once back for the results.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import Array
from ..backend.threads import one_thread
from ..rows import RowArrays, Rows, row_work
from ..rows._dask import OnDask, bytes_at_once, cluster_errors, partitions, task_keys
from ._check import check_kind, floating, look_at, refuse_wrong
from ._collect import check_lengths, collect, is_dask
from ._order import content_of, keys_of, mixed, order_of_views, told_apart, unit_rows
from ._views import Views

# Average number of keys that begin with the same bits.
_KEYS_A_BIN = 32
_MOST_BITS = 20


@dataclass
class GivenRows(RowArrays):
    """Values to be returned, and the numbers of their samples in the input."""

    values: Array
    origin: Array


@dataclass(frozen=True)
class DistributedViews(Views):
    """Views whose rows are on the workers of a cluster; here they have no arrays.

    Attributes
    ----------
    rows_on_dask : OnDask
        The rows.
    feature_counts : tuple of int
        Numbers of features of the views.
    is_single : bool
        Whether all views are in single precision.
    row_chunks : tuple of int
        Rows of the chunks of the first view, as given.
    """

    rows_on_dask: OnDask = field(kw_only=True)
    feature_counts: tuple[int, ...] = ()
    is_single: bool = False
    row_chunks: tuple[int, ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.rows_on_dask.n_rows

    @property
    def widths(self) -> list[int]:
        """Numbers of features."""
        return list(self.feature_counts)

    @property
    def single_precision(self) -> bool:
        """Whether all views are in single precision."""
        return self.is_single

    @property
    def rows(self) -> Rows:
        """The samples as rows on the workers."""
        return self.rows_on_dask

    def close(self, *, failed: bool = False) -> None:
        """Free the rows on the cluster; after a failure, stop what is under way."""
        self.rows_on_dask.close(cancel=failed)

    def rows_as_given(self, name: str) -> Any:
        """Return an array that the rows hold as a Dask array, in the order and the chunks of the input."""
        import dask
        import dask.array as da

        rows, stops, chunked = self.rows_on_dask, np.cumsum(self.row_chunks), f"{name} in chunks"
        rows.alias("values", name)
        rows.make(chunked, _in_chunks, stops)
        sent = rows.futures(chunked)
        rows.drop(chunked, "values")
        chunks = _exchanged(rows.client, sent, len(stops), _in_given_order, f"{name}_in_given_order")
        with cluster_errors():
            shape, dtype = rows.client.submit(_kind, chunks[0], pure=False).result()
        arrays = [
            da.from_delayed(dask.delayed(chunk), (length, *shape), dtype)
            for chunk, length in zip(chunks, self.row_chunks, strict=True)
        ]
        return da.concatenate(arrays)


def _kind(chunk: NDArray[Any]) -> tuple[tuple[int, ...], Any]:
    return chunk.shape[1:], chunk.dtype


@dataclass(frozen=True)
class Chunks:
    """Dask collections, one per view, in the pieces of rows that a task reads together.

    Attributes
    ----------
    client : distributed.Client
        The cluster.
    names : list of str
        Names of the views.
    widths : list of int
        Numbers of features.
    dtypes : list of numpy.dtype
        Types of the values, once they are worked on.
    feature_names : list of arrays of str, or None
        Names of the columns of dataframes.
    row_chunks : tuple of int
        Rows of the chunks of the first view, as given.
    lengths : list of int
        Numbers of rows of the pieces.
    blocks : list of lists
        For each piece, its delayed rows in every view.
    """

    client: Any
    names: list[str]
    widths: list[int]
    dtypes: list[Any]
    feature_names: list[NDArray[np.str_] | None]
    row_chunks: tuple[int, ...]
    lengths: list[int]
    blocks: list[list[Any]]

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return sum(self.lengths)

    @property
    def firsts(self) -> list[int]:
        """Number of the first row of each piece."""
        return [0, *np.cumsum(self.lengths)[:-1].tolist()]

    @property
    def row_bytes(self) -> int:
        """Bytes of a sample."""
        return sum(width * dtype.itemsize for width, dtype in zip(self.widths, self.dtypes, strict=True))

    def compute(self, work: Any, *arguments: list[Any]) -> list[Any]:
        """Return futures of work on the rows of each piece, with one more argument from each list."""
        return _computed(self.client, work, list(zip(self.blocks, *arguments, strict=True)))

    def array_of(self, pieces: list[Any], like: NDArray[Any]) -> Any:
        """Return a Dask array in the chunks of the input, from its rows in every piece: futures, or delayed."""
        import dask
        import dask.array as da

        arrays = [
            da.from_delayed(dask.delayed(piece), (length, *like.shape[1:]), like.dtype)
            for piece, length in zip(pieces, self.lengths, strict=True)
        ]
        joined = da.concatenate(arrays)
        return joined if joined.chunks[0] == self.row_chunks else joined.rechunk({0: self.row_chunks})


def chunks_of(views: Any, view_sizes: Sequence[int] | None) -> Chunks:
    """Return Dask arrays or dataframes in pieces that suit the workers of the current client."""
    client = _client()
    tables = list(views.values()) if isinstance(views, dict) else views if isinstance(views, list | tuple) else []
    if isinstance(views, dict):
        views = {name: _as_array(part, str(name)) for name, part in views.items()}
    elif isinstance(views, list | tuple):
        views = [_as_array(part, f"view {v}") for v, part in enumerate(views)]
    else:
        views = _as_array(views, "the array")
    collected = collect(views, view_sizes)
    parts, names = collected.parts, collected.names
    for part, name in zip(parts, names, strict=True):
        check_kind(part, name)
    check_lengths([part.shape[0] for part in parts], names)
    dtypes = [part.dtype if part.dtype in (np.float32, np.float64) else np.dtype(np.float64) for part in parts]
    row_bytes = sum(part.shape[1] * dtype.itemsize for part, dtype in zip(parts, dtypes, strict=True))
    row_chunks = tuple(int(rows) for rows in parts[0].chunks[0])
    # Reading takes memory several times over.
    together = _read_together(parts, row_chunks, max(1, bytes_at_once(client) // (4 * row_bytes)))
    return Chunks(
        client,
        names,
        [int(part.shape[1]) for part in parts],
        dtypes,
        [_columns(table) for table in tables] or [None] * len(parts),
        row_chunks,
        [rows for rows, _ in together],
        [blocks for _, blocks in together],
    )


def _looked_at(chunks: Chunks, *, gaps: bool) -> tuple[list[Any], list[dict[str, Any]], list[NDArray[np.int64]]]:
    """Look at all rows; return futures of what a look found, what is small of it, and the contents of the views."""
    looked = chunks.compute(partial(_look, gaps=gaps), chunks.firsts)
    with cluster_errors():
        found = chunks.client.gather(chunks.client.map(_found, looked, pure=False))
    for v, name in enumerate(chunks.names):
        refuse_wrong([entry for one in found for entry in one["wrong"][v]], name)
    return (
        looked,
        found,
        [mixed(np.sum([one["contents"][v] for one in found], axis=0)) for v in range(len(found[0]["contents"]))],
    )


def distributed_views(views: Any, view_sizes: Sequence[int] | None) -> DistributedViews:
    """Make `DistributedViews` from Dask arrays or dataframes.

    Parameters
    ----------
    views : Dask array or dataframe, or list, tuple or dict of them
        Chunks may differ between views.
    view_sizes : sequence of int, optional
        How many columns of a single array belong to each view.
    """
    chunks = chunks_of(views, view_sizes)
    client, names, n = chunks.client, chunks.names, chunks.n_samples
    looked, found, contents = _looked_at(chunks, gaps=False)
    for v, name in enumerate(names):
        if lost := [row for one in found for row in one["missing"][v]]:
            raise ValueError(
                f"sample {lost[0]} is missing in {name}, and on a cluster all samples need all views: drop it, "
                "complete the views in memory with tensormvc.impute_views, or use MultiViewClustering"
            )
    view_order = order_of_views(contents, [(False, str(dtype)) for dtype in chunks.dtypes])
    contents = told_apart(contents, view_order)
    n_threads = max(1, sum(client.nthreads().values()))
    where = partitions(n, chunks.row_bytes, n_threads, bytes_at_once(client))
    keys = client.map(_sorted_keys, looked, contents=contents, pure=False)
    cuts = _cuts(client, keys, n, [part.start for part in where[1:]])
    sent = chunks.compute(_send, keys, cuts, chunks.firsts)
    arranged = _exchanged(client, sent, len(where), _Arrange(view_order), "views_in_working_order")
    return DistributedViews(
        arrays=(),
        order=np.empty(0, dtype=np.intp),
        view_order=tuple(view_order),
        row_keys=np.empty(0, dtype=np.uint64),
        missing=np.zeros((0, len(names)), dtype=bool),
        sample_ids=None,
        names=tuple(names[v] for v in view_order),
        as_given=(None,) * len(names),
        feature_names=(None,) * len(names),
        n_gaps=(0,) * len(names),
        categories=({},) * len(names),
        rows_on_dask=OnDask(client, where, arranged, ("views", "keys", "origin")),
        feature_counts=tuple(chunks.widths[v] for v in view_order),
        is_single=all(dtype == np.float32 for dtype in chunks.dtypes),
        row_chunks=chunks.row_chunks,
    )


@dataclass(frozen=True)
class ChunkedViews(Views):
    """Views whose rows are in Dask collections, in chunks, order and values as given; here they have no arrays.

    Attributes
    ----------
    chunks : Chunks
        The rows.
    looks : list of futures
        For each piece of rows, what a look at them found, by view in the order given.
    given_contents : list of arrays
        Hashes of the views, in the order given.
    largest : ndarray of shape (n_views,)
        The largest absolute value of each view, in working order.
    """

    chunks: Chunks = field(kw_only=True)
    looks: list[Any] = field(kw_only=True)
    given_contents: list[NDArray[np.int64]] = field(kw_only=True)
    largest: NDArray[np.float64] = field(kw_only=True)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.chunks.n_samples

    @property
    def widths(self) -> list[int]:
        """Numbers of features."""
        return [self.chunks.widths[v] for v in self.view_order]

    def close(self, *, failed: bool = False) -> None:
        """Free what the look has left on the workers; after a failure, stop what is under way."""
        if failed and self.chunks.client.status == "running":
            self.chunks.client.cancel(self.looks)
        self.looks.clear()


def chunked_views(views: Any, view_sizes: Sequence[int] | None) -> ChunkedViews:
    """Make `ChunkedViews` from Dask arrays or dataframes; samples may lack views, and single values may be NaN."""
    chunks = chunks_of(views, view_sizes)
    looks, found, contents = _looked_at(chunks, gaps=True)
    order = order_of_views(contents, [(False, str(dtype)) for dtype in chunks.dtypes])
    contents = told_apart(contents, order)
    n_gaps, largest = (
        np.sum([one["n_gaps"] for one in found], axis=0),
        np.max([one["largest"] for one in found], axis=0),
    )
    return ChunkedViews(
        arrays=(),
        order=np.empty(0, dtype=np.intp),
        view_order=tuple(order),
        row_keys=np.empty(0, dtype=np.uint64),
        missing=np.zeros((0, len(order)), dtype=bool),
        sample_ids=None,
        names=tuple(chunks.names[v] for v in order),
        as_given=(None,) * len(order),
        feature_names=tuple(chunks.feature_names[v] for v in order),
        n_gaps=tuple(n_gaps[order].tolist()),
        categories=({},) * len(order),
        chunks=chunks,
        looks=looks,
        given_contents=contents,
        largest=largest[order],
    )


def _client() -> Any:
    try:
        from distributed import get_client
    except ImportError:
        raise ImportError("Dask views need a cluster: pip install 'tensormvc[dask]'") from None
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "Dask views need a cluster: create a client first, "
            "client = dask.distributed.Client() for the processors of this machine"
        ) from None


def _as_array(part: Any, name: str) -> Any:
    """Return a view as a Dask array with known chunk sizes."""
    import dask.array as da

    if hasattr(part, "to_dask_array"):
        part = part.to_dask_array(lengths=True)
    elif not is_dask(part):
        part = da.from_array(np.asarray(part), chunks=(2**14, -1))
    if len(part.shape) == 2 and any(map(math.isnan, itertools.chain.from_iterable(part.chunks))):
        raise ValueError(f"{name} has chunks of unknown sizes: call its compute_chunk_sizes() first")
    return part


def _columns(table: Any) -> NDArray[np.str_] | None:
    """Return the names of the columns of a dataframe."""
    return np.array([str(name) for name in table.columns]) if hasattr(table, "columns") else None


def _read_together(parts: list[Any], row_chunks: tuple[int, ...], most: int) -> list[tuple[int, list[Any]]]:
    """Return the numbers of rows of chunks, and the chunks of all views with just these rows."""
    lengths = []
    for rows in row_chunks:
        pieces = -(-rows // most)
        lengths += [rows // pieces + (i < rows % pieces) for i in range(pieces) if rows]
    columns = [part.rechunk((tuple(lengths), -1)).to_delayed()[:, 0] for part in parts]
    return list(zip(lengths, map(list, zip(*columns, strict=True)), strict=True))


def _computed(client: Any, work: Any, arguments: list[tuple[Any, ...]]) -> list[Any]:
    """Return futures of work on what is delayed."""
    import dask

    with cluster_errors():
        return list(client.compute([dask.delayed(work, pure=False)(*given) for given in arguments]))


def _look(blocks: list[Any], first: int, *, gaps: bool) -> dict[str, list[Any]]:
    """Check and hash the rows of a piece."""
    with one_thread():
        seen = [look_at(floating(block), first, gaps=gaps) for block in blocks]
    return {
        "rows": seen,
        "contents": [content_of(look.hashes) for look in seen],
        "missing": [(first + np.flatnonzero(look.missing)[:1]).tolist() for look in seen],
        "wrong": [look.wrong for look in seen],
        "n_gaps": [look.n_gaps for look in seen],
        "largest": [look.sizes.max(initial=0) for look in seen],
    }


def _found(looked: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: value for name, value in looked.items() if name != "rows"}


def _sorted_keys(looked: dict[str, list[Any]], contents: list[Any]) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Return the order of the rows of a chunk, and their keys in it."""
    keys = keys_of([look.hashes for look in looked["rows"]], contents)
    order = np.argsort(keys, kind="stable")
    return order, keys[order]


def _cuts(client: Any, keys: list[Any], n: int, starts: list[int]) -> list[NDArray[np.intp]]:
    """Return where to cut the sorted rows of each chunk, so that all rows of lower rank than a start are before it.

    Of equal keys those of the first chunks come first.
    """
    bits = min(_MOST_BITS, max(1, math.ceil(math.log2(n / _KEYS_A_BIN))))
    with cluster_errors():
        upto = np.cumsum(sum(client.gather(client.map(_histogram, keys, bits=bits, pure=False))))
        bins = np.searchsorted(upto, starts, side="right")
        found = client.gather(client.map(_keys_in, keys, bins=np.unique(bins), bits=bits, pure=False))
    every = np.sort(np.concatenate([keys for keys, _ in found]))
    edges = [np.sort(keys) for keys, _ in found]
    cuts = [np.empty(len(starts), dtype=np.intp) for _ in keys]
    for i, (start, bin_) in enumerate(zip(starts, bins.tolist(), strict=True)):
        # All keys of the bin are here; before them are those of earlier bins, of which only some are.
        begin = int(np.searchsorted(every, np.uint64(bin_ << (64 - bits))))
        edge = every[begin + start - (int(upto[bin_ - 1]) if bin_ else 0)]
        left = start - (int(upto[bin_ - 1]) if bin_ else 0) - (int(np.searchsorted(every, edge)) - begin)
        for c, own in enumerate(edges):
            low, high = (int(np.searchsorted(own, edge, side)) for side in ("left", "right"))
            taken = min(left, high - low)
            left -= taken
            own_begin = int(np.searchsorted(own, np.uint64(bin_ << (64 - bits))))
            cuts[c][i] = found[c][1][bin_] + (low - own_begin) + taken
    return cuts


def _histogram(keys: tuple[Any, NDArray[np.uint64]], bits: int) -> NDArray[np.intp]:
    return np.bincount((keys[1] >> np.uint64(64 - bits)).astype(np.intp), minlength=2**bits)


def _keys_in(
    keys: tuple[Any, NDArray[np.uint64]], bins: NDArray[np.intp], bits: int
) -> tuple[NDArray[np.uint64], dict[int, int]]:
    """Return the keys in some bins, and how many come before each bin."""
    heads = (keys[1] >> np.uint64(64 - bits)).astype(np.intp)
    before = np.searchsorted(heads, bins)
    return keys[1][np.isin(heads, bins)], dict(zip(bins.tolist(), before.tolist(), strict=True))


def _send(blocks: list[Any], keys: Any, cuts: NDArray[np.intp], first: int) -> list[Any]:
    """Return the rows of a chunk for each partition: views, keys, and where they come from."""
    order, sorted_keys = keys
    views = [floating(block)[order] for block in blocks]
    edges = itertools.pairwise([0, *cuts.tolist(), len(order)])
    return [([view[a:b].copy() for view in views], sorted_keys[a:b], first + order[a:b]) for a, b in edges]


class _Arrange:
    """Puts the rows of a partition in order, at unit length, the views in theirs."""

    def __init__(self, view_order: list[int]) -> None:
        self.view_order = view_order

    def __call__(self, pieces: list[Any]) -> dict[str, Any]:
        views, pieces_of_keys, origin = zip(*pieces, strict=True)
        keys = np.concatenate(pieces_of_keys)
        order = np.argsort(keys, kind="stable")
        with one_thread():
            return {
                "views": [unit_rows(np.concatenate([part[v] for part in views]), order) for v in self.view_order],
                "keys": keys[order],
                "origin": np.concatenate(origin)[order],
            }


@row_work(reads="values origin")
def _in_chunks(rows: GivenRows, stops: NDArray[np.intp]) -> list[Any]:
    """Cut the rows of a partition into those of each chunk of the input."""
    values, origin = rows.values, rows.origin
    order = np.argsort(origin)
    edges = itertools.pairwise([0, *np.searchsorted(origin[order], stops).tolist()])
    return [(values[order[a:b]], origin[order[a:b]]) for a, b in edges]


def _in_given_order(pieces: list[Any]) -> NDArray[Any]:
    values, origin = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return np.asarray(values[np.argsort(origin)])


def _exchanged(client: Any, sent: list[Any], count: int, arrange: Any, name: str) -> list[Any]:
    """Return futures of what `arrange` makes of piece i of everything sent."""
    with cluster_errors():
        made = []
        for i, key in enumerate(task_keys(name, count)):
            pieces = client.map(_piece, sent, i=i, pure=False)
            made.append(client.submit(arrange, pieces, key=key, pure=False))
        return made


def _piece(sent: Any, i: int) -> Any:
    return next(iter(sent.values()))[i] if isinstance(sent, dict) else sent[i]
