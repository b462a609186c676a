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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend import one_thread
from ._memory import Executor, Join, Part, Work, added, on_block, piece_size, row_blocks

# Arguments of more bytes than this are sent to the cluster once, instead of with every task.
_SMALL = 4096
# Bytes that all arrays of a partition should have together, about: at most this, and at most this share of the memory
# of a worker, since a task holds them twice; and how often the samples go into them.
_PARTITION_BYTES = 2**27
_WORKER_SHARE = 16
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


def bytes_at_once(client: Any) -> int:
    """Return how many bytes a task of a cluster should look at."""
    limits = [worker.get("memory_limit") or 0 for worker in client.scheduler_info()["workers"].values()]
    return min([_PARTITION_BYTES, *(limit // _WORKER_SHARE for limit in limits if limit)])


def partitions(n_rows: int, row_bytes: int, n_threads: int, n_bytes: int = _PARTITION_BYTES) -> list[Partition]:
    """Return partitions of a size that suits the workers, a few for each thread of theirs."""
    blocks = list(row_blocks(n_rows))
    most = max(1, n_bytes // (_STATE_SHARE * row_bytes))
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
class _Step:
    """Work on a partition, with what became of its arrays since the last."""

    work: Any
    join: Join
    size: int
    fills: dict[str, _Fill]
    dropped: frozenset[str]
    aliases: dict[str, str]

    def names(self, kind: str) -> list[str]:
        return [self.aliases.get(name, name) for name in getattr(self.work, kind)]

    @property
    def changes(self) -> bool:
        return bool(self.work.writes or self.work.sets)


def _own(array: Any, copied: bool) -> Any:
    """Return room of the shape of an array or a list of arrays, with its contents if these are looked at."""
    if isinstance(array, list):
        return [_own(part, copied) for part in array]
    return array.copy() if copied else np.empty_like(array)


def _run(
    partition: Partition,
    state: Any,
    *bundles: Any,
    steps: list[_Step],
    smalls: list[Any],
    which: slice = slice(None),
) -> Any:
    """Do some work, a step after the other; return the new state, and for each step a result for each row block."""
    held = {} if state is None else dict(state[0])
    others = {name: array for bundle in bundles for name, array in bundle.items()}
    first, ours = partition.start, set[str]()
    blocks = [slice(block.start - first, block.stop - first) for block in partition.blocks[which]]
    results = []
    for step, small in zip(steps, smalls, strict=True):
        made = {name: fill.rows(len(partition)) for name, fill in step.fills.items()}
        if step.changes:
            held = {name: array for name, array in held.items() if name not in step.dropped} | made
            ours = (ours - step.dropped) | set(made)
            writes, sets = step.names("writes"), step.names("sets")
            for name in {*writes, *sets} - ours:
                held[name] = _own(held[name], name in writes)
            ours |= {*writes, *sets}
        fields = others | held | made
        fields |= {alias: fields[name] for alias, name in step.aliases.items() if name in fields}
        rooms: dict[Any, Any] = {}
        with one_thread():
            found = [on_block(step.work, small, fields, block, step.size, step.join, rooms, first) for block in blocks]
        results.append([functools.reduce(step.join, found)] if step.work.exact else found)
    return held, results


def _results(partition: Partition, state: Any, *bundles: Any, steps: list[_Step], smalls: list[Any]) -> list[Any]:
    """Do work that changes nothing."""
    results: list[Any] = _run(partition, state, *bundles, steps=steps, smalls=smalls)[1]
    return results


def _result_of_block(
    partition: Partition, state: Any, *bundles: Any, steps: list[_Step], smalls: list[Any], which: int
) -> Any:
    """Do work that changes nothing on one row block."""
    _, [[result]] = _run(partition, state, *bundles, steps=steps, smalls=smalls, which=slice(which, which + 1))
    return result


def _plus(total: Any, more: Any) -> Any:
    return [_plus(a, b) for a, b in zip(total, more, strict=True)] if isinstance(more, list) else total + more


def _make(partition: Partition, state: Any, *bundles: Any, steps: list[_Step], smalls: list[Any], name: str) -> Any:
    """Return what is made of all rows of a partition at once."""
    fields = {} if state is None else dict(state[0])
    fields |= {key: array for bundle in bundles for key, array in bundle.items()}
    fields |= {alias: fields[other] for alias, other in steps[0].aliases.items() if other in fields}
    with one_thread():
        return {name: steps[0].work(Part(fields, slice(0, len(partition)), partition.start, {}), *smalls[0])}


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
        self._pending: list[tuple[_Step, Sequence[Any], _Later]] = []

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

    def full_list(self, name: str, widths: list[int], *, dtype: str) -> None:
        """Make a list of arrays of zeros of all rows, of such widths."""
        self._fill(name, _Fill(tuple((width,) for width in widths), 0, dtype, True))

    def full_like(self, name: str, other: str, *, dtype: str) -> None:
        """Make a list of zeros of the shapes of the views."""
        assert self._aliases.get(other, other) == "views"
        self.full_list(name, self.widths, dtype=dtype)

    def full_beside(self, name: str, other: str) -> None:
        """Make an array of zeros as wide as all views together."""
        assert other == "views"
        self.full(name, self.total_width)

    def _fill(self, name: str, fill: _Fill) -> None:
        self.drop(name)
        self._fills[name] = fill

    def drop(self, *names: str) -> None:
        """Let go of arrays, or of second names; the state forgets arrays when it is changed next."""
        for name in names:
            self._aliases.pop(name, None)
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
        self._pending = []
        if cancel and self.client.status == "running":
            self.client.cancel([future for future in futures if future is not None])

    def make(self, name: str, work: Work, *small: Any) -> None:
        """Let what `work` returns for the rows of a partition, something with as many rows, join the arrays."""
        self._flush()
        step = _Step(work, added, 1, {}, frozenset(), dict(self._aliases))
        self._bundles[name] = self._submit(_make, [step], [small], name=name)
        self._where[name] = name

    def futures(self, name: str) -> list[Any]:
        """Return the futures of what was made, of each partition a dictionary with it."""
        return self._bundles[name]

    def each(self, work: Work, *small: Any, width: int = 1) -> None:
        """Do row-local work on every piece, at the latest together with the next that something is wanted of."""
        self._later(work, added, small, width)

    def sum_later(self, work: Work, *small: Any, width: int = 1) -> Callable[[], Any]:
        """Return a function that returns the sum; the work is done together with the next."""
        return self._later(work, added, small, width)

    def reduce(self, work: Work, join: Join, *small: Any, width: int = 1) -> Any:
        """Join what `work` returns for the pieces, in their order; nothing is None, to which `join` adds the first."""
        return self._later(work, join, small, width)()

    def sum_of_products(self, work: Work, *small: Any, width: int) -> Any:
        """Return the sum of products of so many columns: blocks are added up on the workers, one after the other."""
        self._flush()
        step, total = self._step(work, added, self.product_width(width)), None
        given, sent = self._looked_at([step]), self._sent(step, small)
        with cluster_errors():
            for part, *of_part in zip(self.parts, *given, strict=True):
                # Each sum right after what it adds, so that it goes before what comes later, and few results wait.
                for i, key in enumerate(_keys(work, "", len(part.blocks))):
                    more = self.client.submit(
                        _result_of_block, part, *of_part, steps=[step], smalls=[sent], which=i, key=key, pure=False
                    )
                    sum_key = _keys(work, "sum", 1)[0]
                    total = more if total is None else self.client.submit(_plus, total, more, key=sum_key, pure=False)
            return self.client.gather(total)

    def _later(self, work: Any, join: Join, small: Sequence[Any], width: int) -> _Later:
        step, result = self._step(work, join, width), _Later(self._flush)
        self._pending.append((step, small, result))
        return result

    def _step(self, work: Any, join: Join, width: int) -> _Step:
        """Return a step of work, with what became of the arrays since the last that changes any."""
        if work.writes or work.sets:
            fills, dropped = self._fills, frozenset(self._dropped)
            self._in_state |= set(fills)
            self._fills, self._dropped = {}, set()
        else:
            names = {self._aliases.get(name, name) for name in work.reads}
            fills, dropped = {name: fill for name, fill in self._fills.items() if name in names}, frozenset()
        return _Step(work, join, piece_size(width), fills, dropped, dict(self._aliases))

    def _flush(self) -> None:
        """Do what is waiting to be done: a task for each partition."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        steps = [step for step, _, _ in pending]
        smalls = [small for _, small, _ in pending]
        if any(step.changes for step in steps):
            self._state = self._submit(_run, steps, smalls)
            keys = _keys(steps[-1].work, "result", len(self.parts))
            futures = self.client.map(_second, self._state, key=keys, pure=False)
        else:
            futures = self._submit(_results, steps, smalls)
        with cluster_errors():
            found = self.client.gather(futures)
        for i, (step, _, result) in enumerate(pending):
            total = None
            for block in itertools.chain.from_iterable(of_partition[i] for of_partition in found):
                # What comes from elsewhere is often not to be written to.
                total = step.join(total, copy.deepcopy(block) if total is None else block)
            result.set(total)

    def _submit(self, run: Any, steps: list[_Step], smalls: list[Sequence[Any]], **more: Any) -> list[Any]:
        """Start a task for each partition, with what it looks at."""
        with cluster_errors():
            return list(
                self.client.map(
                    run,
                    self.parts,
                    *self._looked_at(steps, changes=run is _run),
                    steps=steps,
                    smalls=[self._sent(step, small) for step, small in zip(steps, smalls, strict=True)],
                    **more,
                    key=_keys(steps[-1].work, "", len(self.parts)),
                    pure=False,
                )
            )

    def _looked_at(self, steps: list[_Step], *, changes: bool = False) -> list[list[Any]]:
        """Return what some steps look at, for each partition: the state, or None, and what never changes."""
        names = {name for step in steps for kind in ("reads", "writes", "sets") for name in step.names(kind)}
        bundles = sorted({self._where[name] for name in names if name in self._where})
        needs_state = changes or any(name in self._in_state for name in names)
        state = self._state if needs_state else [None] * len(self.parts)
        return [state, *(self._bundles[bundle] for bundle in bundles)]

    def _sent(self, step: _Step, small: Sequence[Any]) -> Any:
        """Return arguments as they are, or a future of them if they would make every task large."""
        if len(pickle.dumps(small)) <= _SMALL:
            return small
        import dask

        # They are sent once, and the scheduler can send them again where they are lost.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
            return self.client.submit(_same, small, key=_keys(step.work, "arguments", 1)[0], pure=False)


class _Later:
    """A result that is there once all that waits is done."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._value: Any = None
        self._done = False

    def set(self, value: Any) -> None:
        self._value, self._done = value, True

    def __call__(self) -> Any:
        if not self._done:
            self._flush()
        return self._value


def _keys(work: Any, what: str, count: int) -> list[str]:
    module = work.__module__.rsplit(".", 1)[-1].strip("_")
    return task_keys(".".join(filter(None, (module, work.__name__.strip("_"), what))), count)


def task_keys(name: str, count: int) -> list[str]:
    """Return keys of tasks that tell on the dashboard what they do."""
    return [f"{name}-{uuid.uuid4().hex}" for _ in range(count)]
