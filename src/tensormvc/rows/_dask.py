"""Rows on the workers of a Dask cluster: the same work on the same blocks of rows, so the same results.

The rows are in partitions of consecutive blocks. Of each partition there are a few futures: the views, arrays made of
them once, and the state. Work that changes the state makes a new one of copies and leaves the old one as it was, so
that the scheduler can compute again what a lost worker held. Small results, one per block, come back and are joined in
the order of the blocks: neither the partitions nor the workers change anything.
"""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate

import numpy as np
from numpy.typing import NDArray

from ..backend.threads import one_thread
from ._memory import Fields, Reductions, added, declaration_of, nothing, pieces, row_blocks, rows_at_once, some_rows
from ._protocol import Declaration, Join, P, R, S, Shape

if TYPE_CHECKING:
    from distributed import Client, Future

# Arguments of more bytes than this are sent to the cluster once, instead of with every task.
_SMALL = 4096
# Bytes of all arrays of a partition together, about: at most this, and at most this share of the memory of a worker,
# since a task holds them twice; and how many times as large as the views the state is.
_PARTITION_BYTES = 2**27
_WORKER_SHARE = 16
_STATE_SHARE = 4


@dataclass(frozen=True)
class Partition:
    """Some consecutive blocks of rows."""

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


def bytes_at_once(client: Client) -> int:
    """Return how many bytes a task of a cluster should look at."""
    limits = [worker.get("memory_limit") or 0 for worker in client.scheduler_info()["workers"].values()]
    return min([_PARTITION_BYTES, *(limit // _WORKER_SHARE for limit in limits if limit)])


def partitions(n_rows: int, row_bytes: int, n_threads: int, n_bytes: int = _PARTITION_BYTES) -> list[Partition]:
    """Return partitions of a size that suits the workers, a few per thread."""
    blocks = list(row_blocks(n_rows))
    most = min(max(1, n_bytes // (_STATE_SHARE * row_bytes)), -(-n_rows // (2 * n_threads)))
    each = max(1, most // (blocks[0].stop - blocks[0].start))
    return [Partition(tuple(blocks[i : i + each])) for i in range(0, len(blocks), each)]


@dataclass(frozen=True)
class _Fill:
    """An array, or a list of arrays, to be created on the workers when it is first used."""

    shapes: Shape | list[Shape]
    value: float
    dtype: str

    def rows(self, n: int) -> Any:
        if isinstance(self.shapes, list):
            return [np.full((n, *shape), self.value, self.dtype) for shape in self.shapes]
        return np.full((n, *self.shapes), self.value, self.dtype)


@dataclass(frozen=True)
class _Step:
    """Work on a partition, with what has become of its arrays since the last step."""

    work: Callable[..., Any]
    arguments: Any
    join: Join[Any]
    width: int
    fills: dict[str, _Fill]
    dropped: frozenset[str]
    aliases: dict[str, str]

    @property
    def declared(self) -> Declaration:
        return declaration_of(self.work)

    @property
    def changes(self) -> bool:
        return bool(self.declared.writes or self.declared.sets)

    def names(self, *kinds: str) -> list[str]:
        return [self.aliases.get(name, name) for kind in kinds for name in getattr(self.declared, kind)]


def _run(partition: Partition, state: Any, *bundles: Fields, steps: list[_Step], arguments: list[Any]) -> Any:
    """Run one step after the other; return the new state, and the results of each step for each block."""
    held: dict[str, Any] = {} if state is None else dict(state[0])
    constants = {name: array for bundle in bundles for name, array in bundle.items()}
    ours: set[str] = set()
    results = []
    for step, (small, named) in zip(steps, arguments, strict=True):
        filled = {name: fill.rows(len(partition)) for name, fill in step.fills.items()}
        if step.changes:
            held = {name: array for name, array in held.items() if name not in step.dropped} | filled
            ours = (ours - step.dropped) | set(filled)
            for name in {*step.names("writes", "sets")} - ours:
                held[name] = _copy(held[name], name in step.names("writes"))
            ours |= {*step.names("writes", "sets")}
        fields = constants | held | filled
        fields |= {alias: fields[name] for alias, name in step.aliases.items() if name in fields}
        size, rooms = rows_at_once(step.declared, fields, step.width), dict[Any, Any]()
        found = []
        with one_thread():
            for block in partition.blocks:
                local = slice(block.start - partition.start, block.stop - partition.start)
                parts = (
                    some_rows(step.declared, fields, piece, partition.start, rooms) for piece in pieces(local, size)
                )
                found.append(functools.reduce(step.join, (step.work(part, *small, **named) for part in parts)))
        results.append([functools.reduce(step.join, found)] if step.declared.exact else found)
    return held, results


def _copy(array: Any, with_contents: bool) -> Any:
    if isinstance(array, list):
        return [_copy(part, with_contents) for part in array]
    return array.copy() if with_contents else np.empty_like(array)


def _results(*state: Any, **work: Any) -> list[Any]:
    """Run steps that change nothing."""
    found: list[Any] = _run(*state, **work)[1]
    return found


def _result_of_block(partition: Partition, state: Any, *bundles: Fields, block: int, **work: Any) -> Any:
    """Run a step that changes nothing on one block."""
    rows = slice(partition.blocks[block].start - partition.start, partition.blocks[block].stop - partition.start)
    state = None if state is None else ({name: _rows_of(array, rows) for name, array in state[0].items()}, None)
    cut = ({name: _rows_of(array, rows) for name, array in bundle.items()} for bundle in bundles)
    [[result]] = _results(Partition((partition.blocks[block],)), state, *cut, **work)
    return result


def _rows_of(array: Any, rows: slice) -> Any:
    return [part[rows] for part in array] if isinstance(array, list) else array[rows]


def _make(
    partition: Partition, state: Any, *bundles: Fields, steps: list[_Step], arguments: list[Any], name: str
) -> Any:
    """Return what work makes of all rows of a partition."""
    (step,), ((small, named),) = steps, arguments
    fields = {} if state is None else dict(state[0])
    fields |= {key: array for bundle in bundles for key, array in bundle.items()}
    fields |= {key: fill.rows(len(partition)) for key, fill in step.fills.items()}
    fields |= {alias: fields[other] for alias, other in step.aliases.items() if other in fields}
    with one_thread():
        rows = some_rows(step.declared, fields, slice(0, len(partition)), partition.start)
        return {name: step.work(rows, *small, **named)}


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
            "the connection to the Dask scheduler was lost, or its work was cancelled: the fit ends without a result; "
            f"look at the logs of the scheduler ({type(error).__name__}: {error})"
        ) from error


class OnDask(Reductions):
    """Rows on the workers of a cluster; implements `Rows`.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    parts : list of Partition
        All rows.
    constants : list of futures
        For each partition, a dictionary of arrays that never change.
    names : tuple of str
        The names of these arrays.
    """

    __slots__ = ("_width",)

    def __init__(self, client: Client, parts: list[Partition], constants: list[Future], names: tuple[str, ...]) -> None:
        self.client, self.parts = client, parts
        self.n_rows = parts[-1].stop
        self._bundles = {"constants": constants}
        self._bundle_of = dict.fromkeys(names, "constants")
        self._state: list[Any] = [None] * len(parts)
        self._in_state: set[str] = set()
        self._fills: dict[str, _Fill] = {}
        self._dropped: set[str] = set()
        self._aliases: dict[str, str] = {}
        self._pending: list[tuple[_Step, _Later]] = []
        self._width = 1

    def __contains__(self, name: str) -> bool:
        return any(name in names for names in (self._bundle_of, self._in_state, self._fills, self._aliases))

    def create(
        self, dtype: str = "float64", *, value: float = 0, wide: bool = False, **shapes: Shape | list[Shape]
    ) -> None:
        """Create arrays filled with a value, from their shapes per row; a list of shapes makes a list of arrays."""
        self.drop(*shapes)
        self._fills.update({name: _Fill(shape, value, dtype) for name, shape in shapes.items()})

    def alias(self, name: str, other: str) -> None:
        """Give an array a second name."""
        self._aliases[name] = other

    def drop(self, *names: str) -> None:
        """Free arrays, or forget second names; the state forgets arrays when it is changed next."""
        for name in names:
            self._aliases.pop(name, None)
            self._fills.pop(name, None)
            if name in self._in_state:
                self._in_state.discard(name)
                self._dropped.add(name)
            if name in self._bundles:
                del self._bundles[name], self._bundle_of[name]

    def place(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return a small array as it is."""
        return values

    def wide(self, width: int) -> OnDask:
        """Return the same rows for work with temporaries of `width` numbers per row."""
        other = object.__new__(OnDask)
        other.__dict__ = self.__dict__  # one state, whatever the width
        other._width = width
        return other

    def close(self, *, cancel: bool = False) -> None:
        """Free everything; with `cancel`, stop what is under way, too, and whatever depends on it."""
        futures = [*itertools.chain.from_iterable(self._bundles.values()), *self._state]
        self._bundles, self._bundle_of, self._state, self._fills = {}, {}, [], {}
        self._in_state.clear()
        self._pending = []
        if cancel and self.client.status == "running":
            self.client.cancel([future for future in futures if future is not None])

    def make(self, name: str, work: Callable[Concatenate[S, P], Any], *small: P.args, **named: P.kwargs) -> None:
        """Create an array from what work returns for the rows of each partition."""
        self._flush()
        self._bundles[name] = self._submit(_make, [self._step(work, nothing, (small, named))], name=name)
        self._bundle_of[name] = name

    def futures(self, name: str) -> list[Future]:
        """Return, for each partition, the future of a dictionary with an array that `make` created."""
        return self._bundles[name]

    def each(self, work: Callable[Concatenate[S, P], None], *small: P.args, **named: P.kwargs) -> None:
        """Run row-local work, at the latest together with the next work whose result is wanted."""
        self._later(work, nothing, (small, named))

    def sum(self, work: Callable[Concatenate[S, P], R], *small: P.args, **named: P.kwargs) -> R:
        """Add up the results of work; large products are added on the workers, one block after the other."""
        declared = declaration_of(work)
        if declared.products and not (declared.writes or declared.sets):
            total: R = self._sum_on_workers(self._step(work, added, (small, named)))
            return total
        return self.reduce(work, added, *small, **named)

    def sum_later(self, work: Callable[Concatenate[S, P], R], *small: P.args, **named: P.kwargs) -> Callable[[], R]:
        """Return a function that returns the sum; the work joins the next one."""
        return self._later(work, added, (small, named))

    def reduce(self, work: Callable[Concatenate[S, P], R], join: Join[R], *small: P.args, **named: P.kwargs) -> R:
        """Join the results of work, in the order of the rows."""
        result: R = self._later(work, join, (small, named))()
        return result

    def _sum_on_workers(self, step: _Step) -> Any:
        self._flush()
        used, sent, total = self._used([step]), self._sent(step), None
        with cluster_errors():
            for part, *of_part in zip(self.parts, *used, strict=True):
                # Each sum right after what it adds, so that it goes before what comes later, and few results wait.
                for i, key in enumerate(_keys(step.work, "", len(part.blocks))):
                    more = self.client.submit(
                        _result_of_block, part, *of_part, block=i, steps=[step], arguments=[sent], key=key, pure=False
                    )
                    key = _keys(step.work, "sum", 1)[0]
                    total = more if total is None else self.client.submit(_plus, total, more, key=key, pure=False)
            return self.client.gather(total)

    def _later(self, work: Callable[..., Any], join: Join[Any], arguments: Any) -> _Later:
        # A copy: what the caller changes before the work is run is not meant for it.
        step, result = self._step(work, join, copy.deepcopy(arguments)), _Later(self._flush)
        self._pending.append((step, result))
        return result

    def _step(self, work: Callable[..., Any], join: Join[Any], arguments: Any) -> _Step:
        """Return a step of work, with what has become of the arrays since the last one that changes any."""
        step = _Step(work, arguments, join, self._width, self._fills, frozenset(self._dropped), dict(self._aliases))
        if step.changes:
            self._in_state |= set(self._fills)
            self._fills, self._dropped = {}, set()
            return step
        names = set(step.names("reads"))
        return replace(
            step, fills={name: self._fills[name] for name in self._fills if name in names}, dropped=frozenset()
        )

    def _flush(self) -> None:
        """Run all pending work: one task per partition."""
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        steps = [step for step, _ in pending]
        if any(step.changes for step in steps):
            self._state = self._submit(_run, steps)
            keys = _keys(steps[-1].work, "result", len(self.parts))
            futures = self.client.map(_second, self._state, key=keys, pure=False)
        else:
            futures = self._submit(_results, steps)
        with cluster_errors():
            found = self.client.gather(futures)
        for i, (step, result) in enumerate(pending):
            of_blocks = itertools.chain.from_iterable(of_partition[i] for of_partition in found)
            # Arrays that come from elsewhere are often read-only, and the first one is added to.
            result.set(functools.reduce(step.join, of_blocks, copy.deepcopy(next(of_blocks))))

    def _submit(self, run: Callable[..., Any], steps: list[_Step], **more: Any) -> list[Future]:
        """Start a task for each partition, with the arrays that it uses."""
        with cluster_errors():
            return list(
                self.client.map(
                    run,
                    self.parts,
                    *self._used(steps, changes=run is _run),
                    steps=[replace(step, arguments=None) for step in steps],
                    arguments=[self._sent(step) for step in steps],
                    **more,
                    key=_keys(steps[-1].work, "", len(self.parts)),
                    pure=False,
                )
            )

    def _used(self, steps: list[_Step], *, changes: bool = False) -> list[list[Any]]:
        """Return what steps use, for each partition: the state, or None, and arrays that never change."""
        names = {name for step in steps for name in step.names("reads", "writes", "sets")}
        bundles = sorted({self._bundle_of[name] for name in names if name in self._bundle_of})
        needs_state = changes or any(name in self._in_state for name in names)
        state = self._state if needs_state else [None] * len(self.parts)
        return [state, *(self._bundles[bundle] for bundle in bundles)]

    def _sent(self, step: _Step) -> Any:
        """Return arguments as they are, or a future of them if they would make every task large."""
        if len(pickle.dumps(step.arguments)) <= _SMALL:
            return step.arguments
        import dask

        # They are sent once, and the scheduler can send them again where they are lost.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
            return self.client.submit(_same, step.arguments, key=_keys(step.work, "arguments", 1)[0], pure=False)


def _plus(total: Any, more: Any) -> Any:
    return [_plus(a, b) for a, b in zip(total, more, strict=True)] if isinstance(more, list) else total + more


class _Later:
    """A result that is known once all pending work is done."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._value: list[Any] = []

    def set(self, value: Any) -> None:
        self._value = [value]

    def __call__(self) -> Any:
        if not self._value:
            self._flush()
        return self._value[0]


def _keys(work: Callable[..., Any], what: str, count: int) -> list[str]:
    module = work.__module__.rsplit(".", 1)[-1].strip("_")
    return task_keys(".".join(filter(None, (module, work.__name__.strip("_"), what))), count)


def task_keys(name: str, count: int) -> list[str]:
    """Return keys of tasks that tell on the dashboard what they do."""
    return [f"{name}-{uuid.uuid4().hex}" for _ in range(count)]
