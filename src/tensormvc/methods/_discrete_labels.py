"""Labels of codes in TLRLF4MVC: each sample goes to the standardised centre with the largest inner product."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..backend.arrays import Array, namespace, on_host, placed
from ..backend.linalg import inner
from ..rows import Draw, RowArrays, Rows, SampleRandom, row_work, uniform

_ROUNDS = 10
_CENTRE_ROUNDS = 3
_CENTRE_STEP = 100.0


@dataclass
class LabelledRows(RowArrays):
    """Row arrays of the labelling from several starts.

    Attributes
    ----------
    consensus : array of shape (n, d)
        The codes.
    phases : array of shape (n, 8)
        Basis of the random numbers of the samples.
    own : array of int of shape (n, starts)
        Labels from every start.
    labels : array of int of shape (n,)
        The best of them.
    """

    consensus: Array
    phases: Array
    own: Array
    labels: Array


def best_discrete_labels(rows: Rows, n_clusters: int, *, n_init: int, random: SampleRandom) -> None:
    """Add the labels of the best of several random starts: fewest empty clusters, then largest agreement.

    Parameters
    ----------
    rows : executor
        It holds the "consensus" codes (n, d), d at least 2, and the "phases" of `random`.
    n_clusters : int
        Number of clusters, of which some may be left empty.
    n_init : int
        Number of starts; each draws `n_clusters` samples at random and assigns all others to their codes.
    random : SampleRandom
        Source of the random numbers.
    """
    draw = Draw.together([random.draw(1) for _ in range(n_init)])
    _, chosen = rows.reduce(_drawn, partial(_earliest, n_clusters), draw, n_clusters)
    rows.create("int64", own=(n_init,))
    _, _, _, sums = _assigned(rows, chosen)
    sizes, agreements = discrete_labels(rows, sums)
    scores = list(zip((sizes > 0).sum(axis=1).tolist(), agreements.tolist(), strict=True))
    rows.create("int64", labels=())
    rows.each(_keep, scores.index(max(scores)))
    rows.drop("own")


def discrete_labels(rows: Rows, sums: Array) -> tuple[Any, Any]:
    """Alternate between standardised centres and the samples that go to them; "own" has the labels, (n, starts).

    Parameters
    ----------
    rows : executor
        It holds the "consensus" codes and "own".
    sums : array of shape (starts, n_clusters, d)
        Of the codes of the clusters to begin with.

    Returns
    -------
    sizes : ndarray of shape (starts, n_clusters)
        Of the clusters.
    agreements : ndarray of shape (starts,)
        Sums of the samples' inner products with the centres of their clusters.
    """
    for _ in range(_ROUNDS):
        centres = _standardised(sums)
        for _ in range(_CENTRE_ROUNDS):
            centres = _standardised(centres + _CENTRE_STEP * sums)
        # A start that is at its end stays there.
        changed, sizes, agreements, sums = _assigned(rows, centres)
        if not int(changed):
            break
    return on_host(sizes), on_host(agreements)


def _assigned(rows: Rows, centres: Array) -> list[Array]:
    return rows.wide(centres.shape[0] * centres.shape[1]).sum(_assign, centres)


@row_work(reads="consensus", writes="own")
def _assign(rows: LabelledRows, centres: Array) -> list[Array]:
    """Let every sample go to the centre with the largest inner product, in every start.

    Returns how many changed, and sizes, agreement and sums of the codes of the clusters.
    """
    codes, own = rows.consensus, rows.own
    xp = namespace(codes)
    n_starts, k, d = centres.shape
    products = xp.reshape(codes @ xp.reshape(centres, (-1, d)).T, (-1, n_starts, k))
    new = xp.argmax(products, axis=2)
    agreement = xp.sum(xp.max(products, axis=2), axis=0)
    changed = xp.sum(xp.astype(new != own, xp.int64))
    own[...] = new
    members = xp.astype(new[:, :, None] == placed(np.arange(k), codes), xp.float64)
    sums = inner(xp.reshape(members, (-1, n_starts * k)), codes)
    return [changed, xp.sum(members, axis=0), agreement, xp.reshape(sums, (n_starts, k, d))]


@row_work(reads="phases consensus")
def _drawn(rows: LabelledRows, draw: Draw, count: int) -> tuple[Array, Array]:
    """Return, of every start, the smallest numbers of the samples, and the codes of these."""
    numbers, order = _smallest_distinct(uniform(rows.phases, draw).T, count)
    return numbers, rows.consensus[order]


def _earliest(count: int, one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """Merge smallest numbers and their codes: keep the `count` smallest; of equal numbers, the first."""
    xp = namespace(one[0])
    numbers, codes = (xp.concat(pair, axis=1) for pair in zip(one, other, strict=True))
    numbers, order = _smallest_distinct(numbers, count)
    return numbers, codes[placed(np.arange(numbers.shape[0])[:, None], numbers), order]


def _smallest_distinct(numbers: Array, count: int) -> tuple[Array, Array]:
    """Return the `count` smallest distinct numbers of each row and their positions.

    If there are fewer, repeated numbers fill the end, as infinity.
    """
    xp = namespace(numbers)
    order = xp.argsort(numbers, axis=1, stable=True)
    numbers = xp.take_along_axis(numbers, order, axis=1)
    again = xp.concat([numbers[:, :1] != numbers[:, :1], numbers[:, 1:] == numbers[:, :-1]], axis=1)
    numbers = xp.where(again, xp.full_like(numbers, np.inf), numbers)
    best = xp.argsort(numbers, axis=1, stable=True)[:, :count]
    return xp.take_along_axis(numbers, best, axis=1), xp.take_along_axis(order, best, axis=1)


@row_work(reads="own", sets="labels")
def _keep(rows: LabelledRows, best: int) -> None:
    rows.labels[...] = rows.own[:, best]


def _standardised(centres: Array) -> Array:
    """Return centres with mean 0 and deviation 1 over their entries; a constant one, of an empty cluster, becomes 1."""
    xp = namespace(centres)
    centred = centres - xp.mean(centres, axis=2, keepdims=True)
    spread = xp.sqrt(xp.sum(centred**2, axis=2, keepdims=True) / (centres.shape[2] - 1))
    constant = xp.max(centres, axis=2, keepdims=True) == xp.min(centres, axis=2, keepdims=True)
    one = xp.ones_like(spread)
    return xp.where(constant, one, centred / xp.where(constant, one, spread))
