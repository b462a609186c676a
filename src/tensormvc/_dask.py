"""Row blocks on a cluster of Dask: the same work on the same blocks, so the same results, with the rows on the workers.

The rows are in partitions of consecutive row blocks, each a few futures: the "views", what was made of them once, and
the state. Work that changes the state makes a new one of copies and leaves the old one as it was, so that the scheduler
can compute again what a lost worker held. What comes back is small, a result for each row block, and is joined here in
the order of the blocks. So nothing depends on the partitions, nor on which worker does what.
"""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._executors import Executor, Join, Part, Work, added, on_block, piece_size, row_blocks
from ._ops import one_thread

# Arguments of more bytes than this are sent to the cluster once, instead of with every task.
_SMALL = 4096
# Bytes that all arrays of a partition should have together, about, and how often the samples go into these.
_PARTITION_BYTES = 2**26
_STATE_SHARE = 4


@dataclass(frozen=True)
class Partition:
    """Some consecutive row blocks."""

    blocks: tuple[slice, ...]

    @property
    def start(self) -> int:
        """Number of the first row."""
        return int(self.blocks[0].start)

    @property
    def stop(self) -> int:
        """Number behind the last row."""
        return int(self.blocks[-1].stop)

    def __len__(self) -> int:
        return self.stop - self.start


def partitions(n_rows: int, row_bytes: int, n_threads: int) -> list[Partition]:
    """Return partitions of a size that suits the workers, a few for each thread of theirs."""
    blocks = list(row_blocks(n_rows))
    most = max(1, _PARTITION_BYTES // (_STATE_SHARE * row_bytes))
    most = min(most, -(-n_rows // (2 * n_threads)))
    each = max(1, most // (blocks[0].stop - blocks[0].start))
    return [Partition(tuple(blocks[i : i + each])) for i in range(0, len(blocks), each)]


@dataclass(frozen=True)
class _Fill:
    """An array, or a list of arrays, that is made when it is first looked at."""

    shapes: tuple[tuple[int, ...], ...]
    value: float
    dtype: str
    is_list: bool

    def rows(self, n: int) -> Any:
        made = [np.full((n, *shape), self.value, self.dtype) for shape in self.shapes]
        return made if self.is_list else made[0]


@dataclass(frozen=True)
class _Task:
    """What is done with a partition, and what becomes of its state."""

    work: Work
    join: Join
    size: int
    fills: dict[str, _Fill]
    dropped: frozenset[str]
    aliases: dict[str, str]
    names: tuple[str, ...] = field(default=())

    def fields(self, n: int, state: Any, others: Sequence[dict[str, Any]]) -> dict[str, Any]:
        held = {} if state is None else {name: a for name, a in state[0].items() if name not in self.dropped}
        held.update((name, fill.rows(n)) for name, fill in self.fills.items())
        for other in others:
            held.update(other)
        return held

    def seen(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {alias: fields[name] for alias, name in self.aliases.items() if name in fields}


def _run(partition: Partition, state: Any, *others: Any, task: _Task, small: Sequence[Any]) -> list[Any]:
    """Do work that changes nothing; return a result for each row block."""
    fields = task.seen(task.fields(len(partition), state, others))
    first = partition.start
    with one_thread():
        blocks = [slice(block.start - first, block.stop - first) for block in partition.blocks]
        results = [on_block(task.work, small, fields, block, task.size, task.join, first) for block in blocks]
        return [functools.reduce(task.join, results)] if task.work.exact else results  # type: ignore[attr-defined]


def _change(partition: Partition, state: Any, *others: Any, task: _Task, small: Sequence[Any]) -> Any:
    """Do work that changes the state; return the new one, and a result for each row block."""
    fields = task.fields(len(partition), state, ())
    for name in task.names:
        if name not in task.fills:
            array = fields[name]
            fields[name] = [part.copy() for part in array] if isinstance(array, list) else array.copy()
    changed = _Task(task.work, task.join, task.size, {}, frozenset(), task.aliases)
    return fields, _run(partition, (fields, None), *others, task=changed, small=small)


def _make(partition: Partition, state: Any, *others: Any, task: _Task, small: Sequence[Any]) -> dict[str, Any]:
    """Return what is made of all rows of a partition at once."""
    fields = task.seen(task.fields(len(partition), state, others))
    with one_thread():
        return {task.names[0]: task.work(Part(fields, slice(0, len(partition)), partition.start), *small)}


def _second(pair: Any) -> Any:
    return pair[1]


def _same(value: Any) -> Any:
    return value


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Say what it means that the scheduler is gone."""
    from distributed.comm.core import CommClosedError

    try:
        yield
    except (CancelledError, CommClosedError, TimeoutError) as error:
        raise RuntimeError(
            "the connection to the Dask scheduler was lost, or its work was cancelled: the fit ends without a result. "
            f"Look at the logs of the scheduler ({type(error).__name__}: {error})"
        ) from error


class OnDask(Executor):
    """Row blocks on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    parts : list of Partition
        Of all rows.
    views : list of futures
        Of each partition, a dictionary of arrays that never change, "views" among them.
    names : tuple of str
        The names of these.
    widths : list of int
        Numbers of features.
    """

    distributed = True

    def __init__(
        self, client: Any, parts: list[Partition], views: list[Any], names: tuple[str, ...], widths: list[int]
    ) -> None:
        self.client, self.parts, self.widths = client, parts, widths
        self.n_rows = parts[-1].stop
        self._bundles = {"views": views}
        self._where = dict.fromkeys(names, "views")
        self._state: list[Any] = [None] * len(parts)
        self._in_state: set[str] = set()
        self._fills: dict[str, _Fill] = {}
        self._dropped: set[str] = set()
        self._aliases: dict[str, str] = {}

    @property
    def total_width(self) -> int:
        """Numbers of a row of all "views"."""
        return sum(self.widths)

    def __contains__(self, name: str) -> bool:
        return name in self._where or name in self._in_state or name in self._fills

    def alias(self, name: str, other: str) -> None:
        """Give an array a second name."""
        self._aliases[name] = other

    def full(self, name: str, *shape: int, value: float = 0, dtype: str = "float64") -> None:
        """Make an array of all rows, of some shape beyond them, filled with a value."""
        self._fill(name, _Fill((shape,), value, dtype, False))

    def full_list(self, name: str, count: int, *, value: float = 0, dtype: str = "float64") -> None:
        """Make a list of arrays, a number a row each, filled with a value."""
        self._fill(name, _Fill(((),) * count, value, dtype, True))

    def full_like(self, name: str, other: str, *, dtype: str) -> None:
        """Make a list of zeros of the shapes of the views."""
        assert self._aliases.get(other, other) == "views"
        self._fill(name, _Fill(tuple((width,) for width in self.widths), 0, dtype, True))

    def _fill(self, name: str, fill: _Fill) -> None:
        self.drop(name)
        self._fills[name] = fill

    def drop(self, *names: str) -> None:
        """Let go of arrays; the state forgets them when it is changed next."""
        for name in names:
            self._fills.pop(name, None)
            if name in self._in_state:
                self._in_state.discard(name)
                self._dropped.add(name)
            if name in self._bundles:
                del self._bundles[name], self._where[name]

    def place(self, values: NDArray[Any]) -> Any:
        """Return a small array as it is."""
        return values

    def close(self, *, cancel: bool = False) -> None:
        """Let go of everything; stop what is under way, too, and whatever depends on it."""
        futures = [*itertools.chain.from_iterable(self._bundles.values()), *self._state]
        self._bundles, self._where, self._state, self._fills = {}, {}, [], {}
        self._in_state.clear()
        if cancel and self.client.status == "running":
            self.client.cancel([future for future in futures if future is not None])

    def make(self, name: str, work: Work, *small: Any) -> None:
        """Let what `work` returns for the rows of a partition, something with as many rows, join the arrays."""
        self._bundles[name] = self._submit(_make, work, added, small, names=(name,))
        self._where[name] = name

    def futures(self, name: str) -> list[Any]:
        """Return the futures of what was made, of each partition a dictionary with it."""
        return self._bundles[name]

    def reduce(self, work: Work, join: Join, *small: Any, width: int = 1) -> Any:
        """Join what `work` returns for the pieces, in their order; nothing is None, to which `join` adds the first."""
        writes = tuple(self._aliases.get(name, name) for name in work.writes)  # type: ignore[attr-defined]
        if writes:
            self._state = self._submit(_change, work, join, small, width=width, names=writes)
            self._in_state |= set(self._fills)
            self._fills = {}
            self._dropped.clear()
            results = self.client.map(_second, self._state, key=_keys(work, "result", len(self.parts)), pure=False)
        else:
            results = self._submit(_run, work, join, small, width=width)
        total = None
        with cluster_errors():
            for block in itertools.chain.from_iterable(self.client.gather(results)):
                # What comes from elsewhere is often not to be written to.
                total = join(total, copy.deepcopy(block) if total is None else block)
        return total

    def _submit(
        self, run: Any, work: Work, join: Join, small: Sequence[Any], *, width: int = 1, names: tuple[str, ...] = ()
    ) -> list[Any]:
        """Start a task for each partition, with what it looks at."""
        looked_at = {self._aliases.get(name, name) for name in work.reads}  # type: ignore[attr-defined]
        bundles = sorted({self._where[name] for name in looked_at if name in self._where})
        needs_state = bool(names and run is _change) or any(name in self._in_state for name in looked_at)
        fills = self._fills if run is _change else {n: f for n, f in self._fills.items() if n in looked_at}
        task = _Task(work, join, piece_size(width), fills, frozenset(self._dropped), dict(self._aliases), names)
        with cluster_errors():
            if len(pickle.dumps(small)) > _SMALL:
                small = self.client.submit(_same, small, key=_keys(work, "arguments", 1)[0], pure=False)
            return list(
                self.client.map(
                    run,
                    self.parts,
                    self._state if needs_state else [None] * len(self.parts),
                    *(self._bundles[bundle] for bundle in bundles),
                    task=task,
                    small=small,
                    key=_keys(work, "", len(self.parts)),
                    pure=False,
                )
            )


def _keys(work: Any, what: str, count: int) -> list[str]:
    module = work.__module__.rsplit(".", 1)[-1].strip("_")
    return task_keys(".".join(filter(None, (module, work.__name__.strip("_"), what))), count)


def task_keys(name: str, count: int) -> list[str]:
    """Return keys of tasks that tell on the dashboard what they do."""
    return [f"{name}-{uuid.uuid4().hex}" for _ in range(count)]
