"""The samples of a fit on a Dask cluster: landmarks come to the client, the others are placed by the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.threads import one_thread
from ..rows._dask import cluster_errors, task_keys
from ..views import ChunkedViews, Chunks, Views, chunks_of
from ..views._check import Look, floating, look_at, refuse_wrong
from ..views._order import keys_of
from ._fitted import FittedClustering, same_features
from ._landmarks import KeyCounts, LandmarkCounts
from ._placement import Placement
from ._samples import Presence, SampleRows, Samples, zeros_are_values
from ._scaling import refuse_sizes
from ._source import ClusterSizes, Notify

# What is computed on the workers when it is asked for: it has many numbers per sample.
_WIDE = ("membership", "embedding", "sample_view_weights")
# Candidates per landmark: of frequent rows, few become landmarks.
_CANDIDATES = 4
# What stays there from the fit on.
_NARROW = ("labels", "confidence", "outlier_score")


@dataclass(frozen=True)
class _Reader:
    """Makes samples of a piece of rows: for each fitted view its position in the piece, or None, and its columns."""

    positions: list[int | None]
    columns: list[NDArray[np.intp] | None]
    widths: list[int]
    zeros_count: list[bool]

    def __call__(self, blocks: list[Any]) -> SampleRows:
        floats = [floating(block) for block in blocks]
        looks = [look_at(block, gaps=True) for block in floats]
        missing = np.ones((len(floats[0]), len(self.positions)), dtype=bool)
        arrays: list[Any] = [None] * len(self.positions)
        for v, (position, columns) in enumerate(zip(self.positions, self.columns, strict=True)):
            if position is not None:
                arrays[v] = floats[position] if columns is None else floats[position][:, columns]
                missing[:, v] = looks[position].missing
        return SampleRows(arrays, self.widths, missing, self.zeros_count)

    @property
    def without_values(self) -> Samples:
        """A sample without any value, to learn the types of results from."""
        m = len(self.widths)
        return SampleRows([None] * m, self.widths, np.ones((1, m), dtype=bool), self.zeros_count)[:]


class DaskSource:
    """Samples on the workers of a cluster; implements `Source`.

    Parameters
    ----------
    views : ChunkedViews
        The views.
    """

    def __init__(self, views: ChunkedViews) -> None:
        self.views: Views = views
        self.chunks, self.largest = views.chunks, views.largest
        zeros_count = [zeros_are_values(*view) for view in zip(views.widths, self.largest.tolist(), strict=True)]
        self.read = _Reader(list(views.view_order), [None] * views.n_views, views.widths, zeros_count)
        describe = partial(
            _describe, contents=views.given_contents, order=list(views.view_order), zeros_count=zeros_count
        )
        self.described = self._map("describe", describe, views.looks)
        counts = self._gather(self._map("count", _counts, self.described))
        if lost := [row + first for (_, row), first in zip(counts, self.chunks.firsts, strict=True) if row is not None]:
            raise ValueError(f"sample {lost[0]} is NaN in every view: drop it")
        self.presence: Presence = reduce(Presence.__add__, [presence for presence, _ in counts])

    def landmarks(self, most: int) -> tuple[NDArray[np.intp], NDArray[np.uint64], Samples]:
        """Return a random sample of those with any value, all of them if there are no more."""
        wanted = self._wanted(most)
        found = self._gather(self._map("rows", partial(_rows, wanted=wanted), self.described))
        keys = np.concatenate([keys for keys, _ in found])
        rows = np.concatenate([rows + first for (_, rows), first in zip(found, self.chunks.firsts, strict=True)])
        # Every piece has sent as many as are wanted of all.
        chosen = wanted.first_rows(keys)
        chosen = chosen[wanted.shuffled(keys[chosen])]
        rows, keys = rows[chosen], keys[chosen]
        piece = np.searchsorted(self.chunks.firsts, rows, side="right") - 1
        own = [rows[piece == i] - first for i, first in enumerate(self.chunks.firsts)]
        parts = self._gather(self.chunks.compute(partial(_samples_at, read=self.read), own))
        back = np.argsort(np.argsort(piece, kind="stable"))
        # Joined as they are: a piece may hold hardly any value, where the whole view has many.
        arrays = [np.concatenate(blocks)[back] for blocks in zip(*(arrays for arrays, _ in parts), strict=True)]
        missing = np.concatenate([missing for _, missing in parts])[back]
        return rows, keys, SampleRows(arrays, self.views.widths, missing, self.read.zeros_count)[:]

    def _wanted(self, most: int) -> LandmarkCounts:
        """Return how many landmarks have which keys: more candidates until some are left over, or there are no more."""
        count = _CANDIDATES * most
        while True:
            parts = self._gather(self._map("keys", partial(_keys, count=count), self.described))
            joined = KeyCounts.joined(parts, count)
            counts = sum(self._gather(self._map("recount", partial(_recount, counted=joined), self.described)))
            found = replace(joined, counts=counts).candidates(count)
            wanted = found.sampled(most)
            if len(wanted.keys) < len(found.keys) or found.counts.sum() == found.n_samples:
                return wanted
            count *= _CANDIDATES

    def results(self, fitted: FittedClustering, notify: Notify) -> tuple[FittedClustering, dict[str, Any]]:
        """Let the workers place all samples; return the renumbered clustering and Dask arrays."""
        from distributed import as_completed

        sent = self._send(fitted.placement)
        placed = self.chunks.compute(partial(_place, read=self.read), [sent] * len(self.chunks.blocks), self.described)
        sizes = self._map("sizes", _second, placed)
        with cluster_errors():
            for done, _ in enumerate(as_completed(sizes), 1):
                notify(done, len(sizes), "chunks placed")
        number = reduce(ClusterSizes.__add__, self._gather(sizes)).order
        renumbered = fitted.renumbered(number)
        final = self._map("renumber", partial(_renumber, place=np.argsort(number)), placed)
        example = renumbered.placement.everything_about(self.read.without_values)
        results = {
            name: self.chunks.array_of(self._map(name, partial(_item, name=name), final), example[name])
            for name in _NARROW
        }
        sent = self._send(renumbered.placement)
        given = np.argsort(self.views.view_order)
        for name in _WIDE:
            results[name] = each_piece(
                self.chunks, partial(_wide, read=self.read, name=name, given=given), sent, example[name]
            )
        return renumbered, results

    def _send(self, placement: Placement) -> Any:
        return send(self.chunks.client, placement)

    def _map(self, name: str, work: Callable[..., Any], futures: list[Any]) -> list[Any]:
        with cluster_errors():
            return list(
                self.chunks.client.map(work, futures, key=task_keys(f"front_door.{name}", len(futures)), pure=False)
            )

    def _gather(self, futures: list[Any]) -> Any:
        with cluster_errors():
            return self.chunks.client.gather(futures)


def send(client: Any, placement: Placement) -> Any:
    """Send the landmarks to the cluster once; the scheduler can send them again where they are lost."""
    import dask

    with cluster_errors(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GiB"}):
        return client.submit(_same, placement, key=task_keys("front_door.landmarks", 1)[0], pure=False)


def each_piece(chunks: Chunks, work: Callable[..., Any], placement: Any, like: NDArray[Any]) -> Any:
    """Return a Dask array of what work makes of the rows of each piece and the landmarks, when it is asked for."""
    import dask

    delayed = dask.delayed(work, pure=False)
    return chunks.array_of([delayed(blocks, placement) for blocks in chunks.blocks], like)


def each_on_dask(
    fitted: FittedClustering, views: Any, view_sizes: Sequence[int] | None, work: Callable[..., Any]
) -> Any:
    """Return a Dask array of what work makes of the links and outlier scores of new samples on a cluster."""
    chunks = chunks_of(fitted.by_name(views), view_sizes)
    positions: list[int | None] = [None] * len(fitted.views)
    columns: list[NDArray[np.intp] | None] = [None] * len(fitted.views)
    for v, position in fitted.positions_of(chunks.names).items():
        positions[v] = position
        columns[v] = same_features(chunks.widths[position], chunks.feature_names[position], fitted.views[v])
    widths = [view.values.shape[1] for view in fitted.views]
    read = _Reader(positions, columns, widths, fitted.zeros_count)
    like = work(fitted.placement, *fitted.placement.place(read.without_values))
    place = partial(_apply, read=read, names=chunks.names, work=work)
    return each_piece(chunks, place, send(chunks.client, fitted.placement), like)


def _same(value: Any) -> Any:
    return value


def _second(pair: Any) -> Any:
    return pair[1]


def _item(found: dict[str, Any], name: str) -> Any:
    return found[name]


def _describe(
    looked: dict[str, list[Look]], contents: list[Any], order: list[int], zeros_count: list[bool]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the keys of the rows of a piece, which views they lack, and which of these are NaN."""
    looks = looked["rows"]
    keys = keys_of([look.hashes for look in looks], contents)
    missing = np.column_stack([looks[v].missing for v in order])
    empty = np.column_stack([looks[v].sizes == 0 for v in order])
    return keys, missing | (empty & ~np.array(zeros_count)), missing


def _counts(described: Any) -> tuple[Presence, int | None]:
    """Return how many samples lack what, and the first one that is NaN in every view."""
    _, absent, missing = described
    lost = np.flatnonzero(missing.all(axis=1))
    return Presence.of(absent), int(lost[0]) if len(lost) else None


def _keys(described: Any, count: int) -> KeyCounts:
    keys, absent, _ = described
    return KeyCounts.of(keys[~absent.all(axis=1)]).candidates(count)


def _recount(described: Any, counted: KeyCounts) -> NDArray[np.intp]:
    keys, absent, _ = described
    return counted.recounted(keys[~absent.all(axis=1)])


def _rows(described: Any, wanted: LandmarkCounts) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Return the samples of a piece that may become landmarks, with their keys."""
    keys, absent, _ = described
    rows = np.flatnonzero(~absent.all(axis=1))
    rows = rows[wanted.first_rows(keys[rows])]
    return keys[rows], rows


def _samples_at(blocks: list[Any], rows: NDArray[np.intp], read: _Reader) -> tuple[list[Any], NDArray[np.bool_]]:
    """Return some rows of a piece, and which of them are missing."""
    with one_thread():
        samples = read([np.asarray(block)[rows] for block in blocks])
    return samples.arrays, samples.missing


def _place(
    blocks: list[Any], placement: Placement, described: Any, read: _Reader
) -> tuple[dict[str, Any], ClusterSizes]:
    """Return what is narrow about the samples of a piece, and the sizes of its clusters."""
    keys, absent, _ = described
    some = ~absent.all(axis=1)
    found = _about(blocks, placement, read, _NARROW)
    sizes = ClusterSizes.of(found["labels"][some], keys[some], placement.shares.shape[1])
    return {**found, "described": some}, sizes


def _about(blocks: list[Any], placement: Placement, read: _Reader, names: Sequence[str]) -> dict[str, Any]:
    with one_thread():
        samples = read(blocks)
        parts = []
        for rows in samples.blocks():
            about = placement.everything_about(samples[rows])
            parts.append([about[name] for name in names])
    return {name: np.concatenate(values) for name, values in zip(names, zip(*parts, strict=True), strict=True)}


def _renumber(placed: tuple[dict[str, Any], Any], place: NDArray[np.intp]) -> dict[str, Any]:
    found = placed[0]
    return {**found, "labels": np.where(found["described"], place[found["labels"]], 0)}


def _wide(blocks: list[Any], placement: Placement, read: _Reader, name: str, given: NDArray[np.intp]) -> Any:
    values = _about(blocks, placement, read, [name])[name]
    return values[:, given] if name == "sample_view_weights" else values


def _apply(blocks: list[Any], placement: Placement, read: _Reader, names: list[str], work: Callable[..., Any]) -> Any:
    """Return what work makes of a piece of new samples, which nobody has looked at."""
    with one_thread():
        for block, name in zip(blocks, names, strict=True):
            look = look_at(floating(block), gaps=True)
            refuse_wrong(look.wrong, name)
            refuse_sizes([look.sizes.max(initial=0)], [name], tiny=False)
        samples = read(blocks)
        return np.concatenate([work(placement, *placement.place(samples[rows])) for rows in samples.blocks()])
