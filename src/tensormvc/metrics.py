"""Compare a clustering with known classes: ACC, NMI, purity, pairwise F-score and ARI.

All measures are computed from the non-zero entries of the contingency table. They do not depend on the names of the
labels or on the order of the samples, not even by rounding.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching

__all__ = [
    "ari", "clustering_accuracy", "clustering_report", "nmi", "pairwise_f_score", "pairwise_precision_recall", "purity",
]  # fmt: skip

_Integers = npt.NDArray[np.int64]

_AVERAGES: dict[str, Callable[[float, float], float]] = {
    "arithmetic": lambda a, b: (a + b) / 2,
    "geometric": lambda a, b: math.sqrt(a * b),
    "max": max,
    "min": min,
}


class _Table(NamedTuple):
    """The non-zero entries of a contingency table, and its margins."""

    rows: _Integers
    columns: _Integers
    counts: _Integers
    class_sizes: _Integers
    cluster_sizes: _Integers

    @property
    def n_samples(self) -> int:
        return int(self.class_sizes.sum())


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # comparing pandas.NA with itself gives no boolean
        return True
    except ValueError:  # an array, which is an error later
        return False


def as_labels(labels: Any, name: str) -> npt.NDArray[Any]:
    """Return labels as a 1-D array; a list that mixes strings with numbers becomes an object array."""
    if np.ma.is_masked(labels):
        raise ValueError(f"{name} of shape {np.shape(labels)} has masked entries; every sample needs a label")
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu()
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise ValueError(f"{name} is ragged; expected one label per sample, shape (n_samples,)") from error
    if not hasattr(labels, "dtype") and array.dtype.kind in "US":
        array = np.asarray(labels, dtype=object)
    if array.ndim != 1:
        remedy = f"; pass {name}.ravel()" if array.ndim == 2 and 1 in array.shape else ""
        raise ValueError(f"{name} has shape {array.shape}; expected one label per sample, shape (n_samples,){remedy}")
    if array.size == 0:
        raise ValueError(f"{name} is empty; expected at least one label")
    return array


def label_codes(array: npt.NDArray[Any], name: str) -> _Integers:
    """Return the labels as integers 0, 1, …; missing labels are an error."""
    if array.dtype.kind in "biufcSUmM":
        if array.dtype.kind in "fcmM":
            _refuse_missing(np.isnat(array) if array.dtype.kind in "mM" else np.isnan(array), name)
        return np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)
    values = array.astype(object).tolist()
    _refuse_missing(np.fromiter(map(_is_missing, values), dtype=bool, count=len(values)), name)
    numbers: dict[Any, int] = {}
    try:
        return np.fromiter((numbers.setdefault(v, len(numbers)) for v in values), dtype=np.int64, count=len(values))
    except TypeError as error:
        raise TypeError(f"{name} has labels that cannot be compared; pass strings or numbers: {error}") from error


def _refuse_missing(missing: npt.NDArray[np.bool_], name: str) -> None:
    if missing.any():
        count = f"{int(missing.sum())} missing labels (NaN or None), the first for sample {int(missing.argmax())}"
        raise ValueError(f"{name} of shape {missing.shape} has {count}; remove these samples from y and labels")


def _table(y: Any, labels: Any) -> _Table:
    first, second = as_labels(y, "y"), as_labels(labels, "labels")
    if first.shape != second.shape:
        raise ValueError(f"y has shape {first.shape} and labels has shape {second.shape}; expected the same length")
    classes, clusters = label_codes(first, "y"), label_codes(second, "labels")
    cluster_sizes = np.bincount(clusters)
    # At most n², which int64 holds up to 3·10⁹ samples.
    cells, counts = np.unique(classes * cluster_sizes.size + clusters, return_counts=True)
    rows, columns = np.divmod(cells, cluster_sizes.size)
    return _Table(rows, columns, counts, np.bincount(classes), cluster_sizes)


def _match(rows: _Integers, columns: _Integers, counts: _Integers) -> int:
    """Return the largest sum of counts with at most one in each row and each column."""
    rows, columns = (np.unique(numbers, return_inverse=True)[1] for numbers in (rows, columns))
    if rows.max() > columns.max():
        rows, columns = columns, rows
    n_rows, n_columns = int(rows.max()) + 1, int(columns.max()) + 1
    # The matching must match every row, so each row gets a column of its own to be matched with for nothing. A weight
    # of 0 would be a missing edge, so all weights are increased by 1.
    alone = np.arange(n_rows)
    values = np.concatenate([counts + 1.0, np.ones(n_rows)])
    # Older versions of SciPy accept 32-bit indices only.
    ends = (np.concatenate(pair).astype(np.int32) for pair in ((rows, alone), (columns, n_columns + alone)))
    weights = sp.csr_array((values, tuple(ends)), shape=(n_rows, n_columns + n_rows))
    return int(weights[min_weight_full_bipartite_matching(weights, maximize=True)].sum()) - n_rows


def _accuracy(table: _Table) -> float:
    # Connected components of the table are matched separately, which is much faster if there are many.
    n_classes, n_clusters = table.class_sizes.size, table.cluster_sizes.size
    n_nodes = n_classes + n_clusters
    links = sp.csr_array((table.counts, (table.rows, n_classes + table.columns)), shape=(n_nodes, n_nodes))
    n_parts, part_of_node = connected_components(links, directed=False)
    part = part_of_node[table.rows]
    order = np.argsort(part, kind="stable")
    starts = np.searchsorted(part[order], np.arange(n_parts))
    # In a component with one class or one cluster, the largest count is the best match.
    sides = np.stack([np.bincount(p, minlength=n_parts) for p in np.split(part_of_node, [n_classes])])
    is_star = sides.min(axis=0) == 1
    matched = int(np.maximum.reduceat(table.counts[order], starts)[is_star].sum())
    ends = np.append(starts[1:], order.size)
    for i in np.flatnonzero(~is_star):
        entries = order[starts[i] : ends[i]]
        matched += _match(table.rows[entries], table.columns[entries], table.counts[entries])
    return matched / table.n_samples


def _entropy(sizes: _Integers) -> float:
    n = int(sizes.sum())
    return math.fsum((sizes / n * np.log(n / sizes)).tolist())


def _nmi(table: _Table, average: str = "arithmetic") -> float:
    if min(table.class_sizes.size, table.cluster_sizes.size) == 1:
        return 0.0
    n = table.n_samples
    by_chance = table.class_sizes[table.rows] * table.cluster_sizes[table.columns]
    information = math.fsum((table.counts / n * np.log(table.counts * n / by_chance)).tolist())
    normaliser = _AVERAGES[average](_entropy(table.class_sizes), _entropy(table.cluster_sizes))
    return min(max(information / normaliser, 0.0), 1.0)


def _purity(table: _Table) -> float:
    largest = np.zeros_like(table.cluster_sizes)
    np.maximum.at(largest, table.columns, table.counts)
    return int(largest.sum()) / table.n_samples


def _pairs(sizes: _Integers) -> int:
    return int((sizes * (sizes - 1)).sum()) // 2


def _pair_counts(table: _Table) -> tuple[int, int, int]:
    """Return the number of pairs of samples that are together in both, in the classes, and in the clusters."""
    return _pairs(table.counts), _pairs(table.class_sizes), _pairs(table.cluster_sizes)


def _f_score(table: _Table) -> float:
    both, in_classes, in_clusters = _pair_counts(table)
    return 2 * both / (in_classes + in_clusters) if in_classes + in_clusters else 0.0


def _ari(table: _Table) -> float:
    return ari_of_pairs(*_pair_counts(table), table.n_samples)


def ari_of_pairs(both: int, in_classes: int, in_clusters: int, n_samples: int) -> float:
    """Return the adjusted Rand index from the numbers of pairs together in both, in the classes, in the clusters."""
    # Python integers keep the numerator and the denominator exact.
    n_pairs = n_samples * (n_samples - 1) // 2
    expected = in_classes * in_clusters
    denominator = (in_classes + in_clusters) * n_pairs - 2 * expected
    return 2 * (both * n_pairs - expected) / denominator if denominator else 0.0


def clustering_accuracy(y: Any, labels: Any) -> float:
    """Return the fraction of samples that are correct under the best one-to-one matching of clusters to classes.

    The numbers of clusters and classes may differ; the samples of unmatched clusters count as wrong.

    Parameters
    ----------
    y : array of shape (n_samples,)
        True class of every sample, of any type.
    labels : array of shape (n_samples,)
        Cluster of every sample, of any type.

    Returns
    -------
    float in (0, 1]

    Examples
    --------
    >>> from tensormvc.metrics import clustering_accuracy
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    return _accuracy(_table(y, labels))


def nmi(y: Any, labels: Any, average: str = "arithmetic") -> float:
    """Return the normalised mutual information: that of classes and clusters, divided by an average of their entropies.

    Publications use different averages; state the one you use. With a single class or a single cluster the value is 0.

    Parameters
    ----------
    y : array of shape (n_samples,)
        True class of every sample, of any type.
    labels : array of shape (n_samples,)
        Cluster of every sample, of any type.
    average : {"arithmetic", "geometric", "max", "min"}, default="arithmetic"
        Average of the two entropies. "max" gives the lowest value, "min" the highest.

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> from tensormvc.metrics import nmi
    >>> y, labels = [0, 0, 1, 1], [0, 1, 2, 2]
    >>> round(nmi(y, labels), 4), round(nmi(y, labels, average="max"), 4)
    (0.8, 0.6667)
    """
    if average not in _AVERAGES:
        raise ValueError(f"unknown average {average!r}; the names are {', '.join(map(repr, _AVERAGES))}")
    return _nmi(_table(y, labels), average)


def purity(y: Any, labels: Any) -> float:
    """Return the fraction of samples that belong to the most frequent class of their cluster.

    It grows with the number of clusters: if every sample is its own cluster, the purity is 1.

    Parameters
    ----------
    y : array of shape (n_samples,)
        True class of every sample, of any type.
    labels : array of shape (n_samples,)
        Cluster of every sample, of any type.

    Returns
    -------
    float in (0, 1]

    Examples
    --------
    >>> from tensormvc.metrics import purity
    >>> purity([0, 0, 1, 1], [0, 1, 2, 2]), purity([0, 1, 2, 2], [0, 0, 1, 1])
    (1.0, 0.75)
    """
    return _purity(_table(y, labels))


def pairwise_precision_recall(y: Any, labels: Any) -> tuple[float, float]:
    """Return the precision and the recall of pairs of samples in the same cluster.

    Precision is the fraction of pairs within clusters that belong to the same class; it is 1 if there is no such pair.
    Recall is the fraction of pairs within classes that are in the same cluster; it is 0 if there is no such pair.

    Parameters
    ----------
    y : array of shape (n_samples,)
        True class of every sample, of any type.
    labels : array of shape (n_samples,)
        Cluster of every sample, of any type.

    Returns
    -------
    precision, recall : float in [0, 1]

    Examples
    --------
    >>> from tensormvc.metrics import pairwise_precision_recall
    >>> pairwise_precision_recall([0, 0, 1, 1], [0, 1, 2, 2])
    (1.0, 0.5)
    """
    both, in_classes, in_clusters = _pair_counts(_table(y, labels))
    return both / in_clusters if in_clusters else 1.0, both / in_classes if in_classes else 0.0


def pairwise_f_score(y: Any, labels: Any) -> float:
    """Return the harmonic mean of pairwise precision and recall; see `pairwise_precision_recall`.

    It is 0 if every class or every cluster consists of a single sample.

    Parameters
    ----------
    y : array of shape (n_samples,)
        True class of every sample, of any type.
    labels : array of shape (n_samples,)
        Cluster of every sample, of any type.

    Returns
    -------
    float in [0, 1]

    Examples
    --------
    >>> from tensormvc.metrics import pairwise_f_score
    >>> round(pairwise_f_score([0, 0, 1, 1], [0, 1, 2, 2]), 4)
    0.6667
    """
    return _f_score(_table(y, labels))


def ari(y: Any, labels: Any) -> float:
    """Return the Rand index adjusted for chance: 1 for equal partitions, 0 on average for random ones.

    It is 0 if either partition has a single cluster or only clusters of a single sample, even if both partitions are
    the same. (scikit-learn returns 1 there.)

    Parameters
    ----------
    y : array of shape (n_samples,)
        True class of every sample, of any type.
    labels : array of shape (n_samples,)
        Cluster of every sample, of any type.

    Returns
    -------
    float in [-0.5, 1]

    Examples
    --------
    >>> from tensormvc.metrics import ari
    >>> ari([0, 0, 1, 1], ["x", "x", "y", "y"]), ari([0, 0, 1, 1], [0, 1, 0, 1])
    (1.0, -0.5)
    """
    return _ari(_table(y, labels))


def clustering_report(y: Any, labels: Any) -> dict[str, float]:
    """Return the five common measures of agreement between a clustering and known classes.

    Parameters
    ----------
    y : array of shape (n_samples,)
        True class of every sample, of any type.
    labels : array of shape (n_samples,)
        Cluster of every sample, of any type.

    Returns
    -------
    dict
        "ACC" (`clustering_accuracy`), "NMI" (`nmi`, with the arithmetic mean), "Purity" (`purity`), "F-score"
        (`pairwise_f_score`) and "ARI" (`ari`), in this order. All are in [0, 1], except that ARI can be negative.

    Examples
    --------
    >>> from tensormvc.metrics import clustering_report
    >>> report = clustering_report([0, 0, 1, 1], [0, 1, 2, 2])
    >>> {name: round(value, 4) for name, value in report.items()}
    {'ACC': 0.75, 'NMI': 0.8, 'Purity': 1.0, 'F-score': 0.6667, 'ARI': 0.5714}
    """
    table = _table(y, labels)
    measures = {"ACC": _accuracy, "NMI": _nmi, "Purity": _purity, "F-score": _f_score, "ARI": _ari}
    return {name: measure(table) for name, measure in measures.items()}
