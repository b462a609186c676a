"""Does a clustering depend on the order of the rows? A verdict for any clusterer, and a sweep over shuffle rates."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import metrics
from ..backend import random_seed
from ..bases import FFT, ViewFFT
from ..datasets._shuffle import shuffled_positions, take_samples
from ..diagnostics import circular_total_variation, compact_similarities, low_frequency_share
from ..methods._base import MultiViewClusterer
from ..views import as_views
from ._agreement import mean_and_interval, numbered_by_first, pairwise_ari
from ._clusterers import Clusterer, run_all

__all__ = ["OrderAudit", "ShuffleSweep", "audit_order", "shuffle_sweep"]

_Labels = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Interval = tuple[float, float]
_Progress = Callable[[int, int], Any]

# Mean pairwise ARI over the orders from which a dependence is called mild, or else moderate; below it is severe.
_MILD, _MODERATE = 0.95, 0.8
_N_UNSTABLE = 20
_NOISE = -1


@dataclass(frozen=True, eq=False, repr=False)
class OrderAudit:
    """What `audit_order` found.

    Parameters
    ----------
    name : str
        The clusterer.
    order_dependent : bool
        Whether some pair of orders, at one seed, gave different partitions. The numbering of clusters is no difference.
    severity : {"none", "mild", "moderate", "severe"}
        "none" if not `order_dependent`; else by `order_ari`: mild from 0.95 on, moderate from 0.8 on, severe below.
    repeatable : bool
        Whether the order as given, run again with the same seed, gave the same partition. If not, chance is at work
        that the seed does not govern, and differences between orders may be nothing else.
    order_ari : float
        Mean adjusted Rand index of all pairs of orders at the same seed. Equal partitions have 1.
    order_ari_interval : tuple of two floats
        Its 95 % bootstrap interval: the orders are drawn anew, and pairs of an order with itself left out.
    seed_ari : float
        The same mean for the order as given with other seeds; NaN for a clusterer that takes no seed.
    seed_ari_interval : tuple of two floats
        Its interval.
    sample_instability : ndarray of shape (n_samples,)
        For every sample the mean, over pairs of orders, of the Jaccard distance of the two clusters that it is in: 0
        for one that always has the same company, near 1 for one that moves between clusters. One that stays while
        others come and go has a little of it.
    n_clusters_range : tuple of two ints
        Fewest and most clusters over the orders; noise (label -1) is not counted.
    labels : ndarray of shape (n_orders, n_samples)
        Labels of every order, put back in the order as given, which is the first.
    seed_labels : ndarray of shape (n_seeds, n_samples)
        The same for the seeds; the first is that of the orders. No rows for a clusterer that takes no seed.
    order_aris : ndarray of shape (n_orders, n_orders)
        ARI of every pair of orders.
    seed_aris : ndarray of shape (n_seeds, n_seeds)
        ARI of every pair of seeds.
    seed : int or None
        The seed of the orders; None for a clusterer that takes none.
    seed_was_set : bool
        Whether the clusterer came with ``random_state=None``, so that `seed` is the audit's choice.
    accuracies : ndarray of shape (n_orders,) or None
        Accuracy of every order against `y`, if it was given. It uses labels, and is for display alone.
    runs : tuple of dict
        One a run, see `to_frame`.
    seconds : float
        How long the audit took.

    Examples
    --------
    >>> import tensormvc as tm
    >>> from sklearn.cluster import AgglomerativeClustering
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> tm.audit_order(AgglomerativeClustering(10), views, n_permutations=3).severity
    'none'
    """

    name: str
    order_dependent: bool
    severity: str
    repeatable: bool
    order_ari: float
    order_ari_interval: _Interval
    seed_ari: float
    seed_ari_interval: _Interval
    sample_instability: _Floats
    n_clusters_range: tuple[int, int]
    labels: _Labels
    seed_labels: _Labels
    order_aris: _Floats
    seed_aris: _Floats
    seed: int | None
    seed_was_set: bool
    accuracies: _Floats | None
    runs: tuple[dict[str, Any], ...]
    seconds: float

    @property
    def unstable_samples(self) -> NDArray[np.intp]:
        """The samples that move most, at most 20, the worst first."""
        worst = np.argsort(-self.sample_instability, kind="stable")[:_N_UNSTABLE]
        return worst[self.sample_instability[worst] > 0]

    @property
    def verdict(self) -> str:
        """The finding in one sentence."""
        orders, n = self.labels.shape
        if not self.order_dependent:
            return f"{self.name} gave the same partition of {n} samples in all of {orders} orders."
        seed = "" if self.seed is None else " at one seed"
        found = (
            f"{self.name} depends on the order of the rows ({self.severity}): {orders} orders of {n} samples{seed} "
            f"agree with a mean ARI of {self.order_ari:.3f}"
        )
        if self.seed is not None:
            found += f"; other seeds {self._beside_seeds()} ({self.seed_ari:.3f})"
        if not self.repeatable:
            found += "; but even the same order and seed gave two partitions, so that the order is not alone to blame"
        return found + "."

    def _beside_seeds(self) -> str:
        if np.all(self.seed_aris == 1):
            return "change nothing"
        if self.seed_ari_interval[0] > self.order_ari_interval[1]:
            return "change less"
        if self.seed_ari_interval[1] < self.order_ari_interval[0]:
            return "change more"
        return "change about as much"

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row a run.

        Columns: kind ("order": another order, same seed; "seed": another seed, same order; "repeat": nothing
        changed), seed, permutation (0 is the order as given), n_clusters (without noise), ari_to_first, seconds; and
        ACC if labels were given.
        """
        return _frame(self.runs)

    def plot(self, ax: Any = None) -> Any:
        """Draw the audit, see `tensormvc.plotting.plot_audit`."""
        return import_module("tensormvc.plotting").plot_audit(self, ax=ax)

    def __repr__(self) -> str:
        orders, n = self.labels.shape
        low, high = self.n_clusters_range
        ari = _with_interval(self.order_ari, self.order_ari_interval)
        lines = [self.verdict, f"  {f'{orders} orders, one seed':<24}mean pairwise ARI {ari}"]
        if self.seed is None:
            lines.append("  takes no seed")
        else:
            ari = _with_interval(self.seed_ari, self.seed_ari_interval)
            lines.append(f"  {f'{len(self.seed_labels)} seeds, one order':<24}mean pairwise ARI {ari}")
            if self.seed_was_set:
                lines.append(f"  it came with random_state=None; {self.seed} was used for all orders")
        lines.append(f"  clusters                {low if low == high else f'{low} to {high}'}")
        if len(self.unstable_samples):
            lines.append(f"  samples that move most  {', '.join(map(str, self.unstable_samples[:8]))}")
        if self.accuracies is not None:
            span = f"{self.accuracies.min():.3f} to {self.accuracies.max():.3f}"
            lines.append(f"  accuracy over orders    {span} (uses the labels given)")
        return "\n".join([*lines, f"  {len(self.runs)} fits of {n} samples in {self.seconds:.1f} s"])


def audit_order(
    estimator: Any,
    views: Any,
    n_permutations: int = 20,
    random_state: Any = 0,
    y: Any = None,
    sample_graph: Any = None,
    n_jobs: int | None = None,
    *,
    progress: _Progress | None = None,
) -> OrderAudit:
    """Say whether a clusterer's result depends on the order of the rows, and how much.

    The same samples are clustered in several orders with the same seed, and in one order with several seeds: what
    comes from the order is told apart from what comes from the seed. The clusterer itself is left as it is.

    Parameters
    ----------
    estimator : object with ``fit_predict``, or function
        An estimator of this package or of anybody. A function takes the views and returns labels; it is called with
        ``random_state=`` if it has a parameter of that name.
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The data. Several views are put side by side for an estimator that is not of this package. The columns of a
        matrix of distances (``metric="precomputed"`` in scikit-learn) are permuted with its rows.
    n_permutations : int, default=20
        Number of orders, at least 2. The first is the order as given, the others are random. As many seeds are tried.
    random_state : int, RandomState instance or None, default=0
        Seed of the orders and of the bootstrap, and of an estimator that comes with ``random_state=None``.
    y : array of shape (n_samples,), optional
        Classes, to show accuracies beside the finding. The finding does not depend on them.
    sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
        Handed to ``fit_predict``, or to the function, as ``sample_graph=``, permuted with the samples.
    n_jobs : int, optional
        Fits that run at once, through joblib; one by default, -1 for all processors.
    progress : function of two ints, optional
        Called after every fit with the number done and the number of all.

    Returns
    -------
    OrderAudit
        Its ``verdict`` says it in one sentence.

    Notes
    -----
    2·n_permutations fits: the orders, the order as given once more, to see whether it is repeatable, and the other
    seeds; n_permutations + 1 for a clusterer that takes no seed. Beyond the fits, and the copies of the rows, the audit
    costs O(n) a pair of different partitions.

    Label -1, scikit-learn's noise, is compared like any other label and not counted as a cluster.

    Examples
    --------
    >>> import tensormvc as tm
    >>> from sklearn.cluster import KMeans
    >>> views, y = tm.datasets.load_digits_views(300)
    >>> audit = tm.audit_order(KMeans(10, n_init=1, random_state=0), views, n_permutations=5)
    >>> audit.order_dependent, audit.order_ari < 1
    (True, True)
    """
    start = time.perf_counter()
    if isinstance(n_permutations, bool) or not isinstance(n_permutations, int | np.integer) or n_permutations < 2:
        raise ValueError(f"n_permutations must be a whole number from 2 on, got {n_permutations!r}")
    audit_seed = random_seed(random_state)
    rng = np.random.default_rng(audit_seed)
    clusterer = Clusterer(estimator, views, sample_graph, audit_seed)
    n = clusterer.n_samples
    y = _check_classes(y, n)
    given = np.arange(n)
    orders = [given, *(rng.permutation(n) for _ in range(n_permutations - 1))]
    tasks: list[tuple[str, int, NDArray[np.intp], int | None]]
    tasks = [("order", i, order, None) for i, order in enumerate(orders)]
    tasks.append(("repeat", 0, given, None))
    if clusterer.seed is not None:
        tasks += [("seed", 0, given, (clusterer.seed + i) % 2**31) for i in range(1, n_permutations)]
    results = run_all(_labels_and_seconds, [(clusterer, order, seed) for _, _, order, seed in tasks], n_jobs, progress)

    # The orders, the repeat of the first, then the seeds, of which the first is that of the orders.
    labels = np.stack([found for found, _ in results])
    partitions = [numbered_by_first(found) for found in labels]
    by_order = list(range(n_permutations))
    by_seed = [] if clusterer.seed is None else [0, *range(n_permutations + 1, len(tasks))]
    instability = np.zeros(n)
    order_aris = pairwise_ari([partitions[i] for i in by_order], instability)
    seed_aris = pairwise_ari([partitions[i] for i in by_seed])
    order_ari, order_interval = mean_and_interval(order_aris, rng)
    seed_ari, seed_interval = mean_and_interval(seed_aris, rng)
    dependent = any(not np.array_equal(partitions[i], partitions[0]) for i in by_order)
    n_clusters = [int(p.max()) + 1 - int((found == _NOISE).any()) for p, found in zip(partitions, labels, strict=True)]
    accuracies = None if y is None else [metrics.clustering_accuracy(y, found) for found in labels]
    repeat_aris = pairwise_ari([partitions[0], partitions[n_permutations]])
    to_first = [*order_aris[0], repeat_aris[0, 1], *(seed_aris[0, 1:] if by_seed else [])]
    runs = []
    for i, (kind, number, _, seed) in enumerate(tasks):
        runs.append(
            {
                "kind": kind,
                "seed": clusterer.seed if seed is None else seed,
                "permutation": number,
                "n_clusters": n_clusters[i],
                "ari_to_first": float(to_first[i]),
                "seconds": results[i][1],
            }
        )
        if accuracies is not None:
            runs[i]["ACC"] = accuracies[i]
    return OrderAudit(
        name=clusterer.name,
        order_dependent=dependent,
        severity=_severity(order_ari) if dependent else "none",
        repeatable=np.array_equal(partitions[0], partitions[n_permutations]),
        order_ari=order_ari,
        order_ari_interval=order_interval,
        seed_ari=seed_ari,
        seed_ari_interval=seed_interval,
        sample_instability=instability,
        n_clusters_range=(min(n_clusters[i] for i in by_order), max(n_clusters[i] for i in by_order)),
        labels=labels[:n_permutations],
        seed_labels=labels[by_seed],
        order_aris=order_aris,
        seed_aris=seed_aris,
        seed=clusterer.seed,
        seed_was_set=clusterer.seed_was_set,
        accuracies=None if accuracies is None else np.array(accuracies[:n_permutations]),
        runs=tuple(runs),
        seconds=time.perf_counter() - start,
    )


@dataclass(frozen=True, eq=False, repr=False)
class ShuffleSweep:
    """What `shuffle_sweep` found: arrays with a row for each rate and a column for each repeat.

    At rate 0 there is nothing to repeat: its row holds one result.

    Parameters
    ----------
    name : str
        The clusterer.
    rates : ndarray of shape (n_rates,)
        Shuffle rates.
    ari : ndarray of shape (n_rates, n_repeats)
        Adjusted Rand index with the partition of the order as given, at the same seed.
    accuracy : ndarray of shape (n_rates, n_repeats) or None
        Accuracy against `y`, if it was given: labels are used to measure, for nothing else.
    ctv : ndarray of shape (n_rates, n_repeats)
        Circular total variation of the similarity tensor, whatever the clusterer.
    low_frequency_share : ndarray of shape (n_rates, n_repeats)
        Share of the similarity tensor's energy, beyond the first slice, in the lowest 5 % of the frequencies.
    basis : str
        Of which basis: the clusterer's own if it has one along the samples, else the FFT.
    labels : ndarray of shape (n_rates, n_repeats, n_samples)
        Labels in the order as given.
    n_samples : int
        Number of samples.
    seconds : float
        How long the sweep took.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> sweep = tm.shuffle_sweep(tm.GMC(10), views, rates=(0, 1), n_repeats=2)
    >>> sweep.ari
    array([[1., 1.],
           [1., 1.]])
    """

    name: str
    rates: _Floats
    ari: _Floats
    accuracy: _Floats | None
    ctv: _Floats
    low_frequency_share: _Floats
    basis: str
    labels: _Labels
    n_samples: int
    seconds: float

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row a rate and repeat."""
        columns = {"ari": self.ari, "ctv": self.ctv, "low_frequency_share": self.low_frequency_share}
        if self.accuracy is not None:
            columns["ACC"] = self.accuracy
        return _frame(
            [
                {"rate": rate, "repeat": j} | {name: values[i, j] for name, values in columns.items()}
                for i, rate in enumerate(self.rates)
                for j in range(self.ari.shape[1])
            ]
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the sweep, see `tensormvc.plotting.plot_shuffle_sweep`."""
        return import_module("tensormvc.plotting").plot_shuffle_sweep(self, ax=ax)

    def __repr__(self) -> str:
        columns = [("ARI to rate 0", self.ari), ("CTV", self.ctv), ("low-frequency energy", self.low_frequency_share)]
        if self.accuracy is not None:
            columns.insert(0, ("ACC (uses labels)", self.accuracy))
        lines = [
            f"{self.name}, {self.n_samples} samples, means of {self.ari.shape[1]} shuffles; spectrum of {self.basis}",
            "  rate" + "".join(f"{name:>22}" for name, _ in columns),
        ]
        for i, rate in enumerate(self.rates):
            lines.append(f"  {rate:<4.2g}" + "".join(f"{values[i].mean():>22.4g}" for _, values in columns))
        return "\n".join(lines)


def shuffle_sweep(
    estimator: Any,
    views: Any,
    y: Any = None,
    rates: Sequence[float] = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
    n_repeats: int = 5,
    random_state: Any = 0,
    sample_graph: Any = None,
    n_jobs: int | None = None,
    *,
    progress: _Progress | None = None,
) -> ShuffleSweep:
    """Cluster the samples at several shuffle rates, and measure what the shuffle does to data and result.

    A rate r permutes a random ⌊r n⌋ of the rows among themselves, see `datasets.shuffle_samples`. Sort the rows by
    class first to see what the paper sees.

    Parameters
    ----------
    estimator : object with ``fit_predict``, or function
        As in `audit_order`. It has the same seed in all runs.
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The data, as in `audit_order`.
    y : array of shape (n_samples,), optional
        Classes, to measure the accuracy; they are used for nothing else.
    rates : sequence of float, default=(0, 0.1, …, 1)
        Shuffle rates, from 0 to 1.
    n_repeats : int, default=5
        Shuffles at each rate but 0.
    random_state : int, RandomState instance or None, default=0
        Seed of the shuffles, and of an estimator that comes with ``random_state=None``.
    sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
        Handed to ``fit_predict``, or to the function, as ``sample_graph=``, permuted with the samples.
    n_jobs : int, optional
        Fits that run at once, through joblib; one by default, -1 for all processors.
    progress : function of two ints, optional
        Called after every fit with the number done and the number of all.

    Returns
    -------
    ShuffleSweep

    Notes
    -----
    The similarity tensor is not formed: what is measured of it can be read off n × d_v matrices.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60, class_sorted=True)
    >>> sweep = tm.shuffle_sweep(tm.GMC(10), views, rates=(0, 1), n_repeats=2)
    >>> bool((sweep.ctv[1] > sweep.ctv[0]).all())
    True
    """
    start = time.perf_counter()
    if isinstance(n_repeats, bool) or not isinstance(n_repeats, int | np.integer) or n_repeats < 1:
        raise ValueError(f"n_repeats must be a whole number from 1 on, got {n_repeats!r}")
    seed = random_seed(random_state)
    clusterer = Clusterer(estimator, views, sample_graph, seed)
    n = clusterer.n_samples
    y = _check_classes(y, n)
    wanted = np.asarray(rates, dtype=np.float64)
    if wanted.ndim != 1 or len(wanted) == 0:
        raise ValueError(f"rates must be a list of numbers from 0 to 1, got {rates!r}")
    rng = np.random.RandomState(seed)
    # The order as given comes first: all others are compared with it.
    orders = [np.arange(n)]
    place = np.zeros((len(wanted), n_repeats), dtype=np.intp)
    for i, rate in enumerate(wanted):
        for j in range(n_repeats if rate != 0 else 0):
            place[i, j] = len(orders)
            orders.append(shuffled_positions(n, float(rate), rng))
    results = run_all(_labels_and_spectrum, [(clusterer, views, order) for order in orders], n_jobs, progress)
    labels = np.stack([result[0] for result in results])
    first = numbered_by_first(labels[0])
    aris = np.array([pairwise_ari([first, numbered_by_first(found)])[0, 1] for found in labels])
    accuracies = None if y is None else np.array([metrics.clustering_accuracy(y, found) for found in labels])
    return ShuffleSweep(
        name=clusterer.name,
        rates=wanted,
        ari=aris[place],
        accuracy=None if accuracies is None else accuracies[place],
        ctv=np.array([result[1] for result in results])[place],
        low_frequency_share=np.array([result[2] for result in results])[place],
        basis=results[0][3],
        labels=labels[place],
        n_samples=n,
        seconds=time.perf_counter() - start,
    )


def _labels_and_seconds(clusterer: Clusterer, order: NDArray[np.intp], seed: int | None) -> tuple[_Labels, float]:
    run = clusterer.run(order, seed)
    return run.labels, run.seconds


def _labels_and_spectrum(
    clusterer: Clusterer, views: Any, order: NDArray[np.intp]
) -> tuple[_Labels, float, float, str]:
    """Return labels, total variation, low-frequency share, and under which basis the share is."""
    run = clusterer.run(order)
    if isinstance(run.fitted, MultiViewClusterer):
        made = run.fitted._as_views(run.views)
    else:
        made = as_views(take_samples(views, order), canonical=False)
    rows = compact_similarities(made)
    as_given = made.to_given_order(rows)
    basis = getattr(run.fitted, "basis_", None)
    if not isinstance(run.fitted, MultiViewClusterer) or basis is None or isinstance(basis, ViewFFT):
        basis, rows = FFT(), as_given
    return run.labels, circular_total_variation(as_given), low_frequency_share(rows, basis), repr(basis)


def _check_classes(y: Any, n: int) -> Any:
    if y is not None and len(y) != n:
        raise ValueError(f"y has {len(y)} labels for {n} samples")
    return y


def _severity(ari: float) -> str:
    return "mild" if ari >= _MILD else "moderate" if ari >= _MODERATE else "severe"


def _with_interval(value: float, interval: _Interval) -> str:
    return f"{value:.3f} (95 % interval {interval[0]:.3f} to {interval[1]:.3f})"


def _frame(rows: Sequence[dict[str, Any]]) -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas: pip install pandas") from error
    return pd.DataFrame(list(rows))
