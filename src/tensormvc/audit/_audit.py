"""Does a clustering depend on the order of the rows? A verdict on any clusterer."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import metrics, plotting
from ..backend.checks import random_seed
from ..backend.frames import data_frame
from ._agreement import mean_and_interval, numbered_by_first, pairwise_ari
from ._clusterers import Clusterer, run_all

# Lowest mean pairwise ARI over the orders at which a dependence is called mild, or moderate.
_MILD, _MODERATE = 0.95, 0.8
_N_UNSTABLE = 20
_NOISE = -1

Progress = Callable[[int, int], Any]


@dataclass(frozen=True, eq=False, repr=False)
class OrderAudit:
    """Result of `audit_order`; printing it gives a summary.

    Parameters
    ----------
    name : str
        Name of the clusterer.
    order_dependent : bool
        Whether two orders gave different partitions at the same seed. Renumbered clusters are no difference.
    repeatable : bool
        Whether a second run with the same order and seed gave the same partition. If not, the clusterer uses
        randomness that its seed does not control, and differences between orders may have no other cause.
    order_ari : float
        Mean adjusted Rand index over all pairs of orders, at the same seed. Equal partitions have ARI 1.
    order_ari_interval : tuple of two floats
        95 % bootstrap interval of `order_ari`. The orders are resampled, not the pairs, and an order is never paired
        with itself.
    seed_ari : float
        Mean ARI over all pairs of seeds, with the rows in the order given; NaN for a clusterer without a seed.
    seed_ari_interval : tuple of two floats
        95 % bootstrap interval of `seed_ari`.
    sample_instability : ndarray of shape (n_samples,)
        How much the cluster around each sample changes with the order: the Jaccard distance between the two clusters
        the sample is in, averaged over pairs of orders. 0 means that the sample is always grouped with the same
        samples, values near 1 that it moves between clusters. A sample that stays while others join or leave its
        cluster has a small positive value.
    labels : ndarray of shape (n_orders, n_samples)
        Labels for every order, with the samples in the order given. The first row is the order given.
    seed_labels : ndarray of shape (n_seeds, n_samples)
        Labels for every seed, the seed of the orders first; empty for a clusterer without a seed.
    order_aris : ndarray of shape (n_orders, n_orders)
        ARI of every pair of orders.
    seed_aris : ndarray of shape (n_seeds, n_seeds)
        ARI of every pair of seeds.
    seed : int or None
        Seed used for all orders; None for a clusterer without a seed.
    seed_was_set : bool
        Whether the clusterer had ``random_state=None``, so that the audit chose `seed`.
    runs : tuple of dict
        One record per fit, see `to_frame`.
    seconds : float
        Duration of the audit.

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
    repeatable: bool
    order_ari: float
    order_ari_interval: tuple[float, float]
    seed_ari: float
    seed_ari_interval: tuple[float, float]
    sample_instability: NDArray[np.float64]
    labels: NDArray[np.int64]
    seed_labels: NDArray[np.int64]
    order_aris: NDArray[np.float64]
    seed_aris: NDArray[np.float64]
    seed: int | None
    seed_was_set: bool
    runs: tuple[dict[str, Any], ...]
    seconds: float

    @property
    def severity(self) -> str:
        """Degree of the dependence: "none", or by `order_ari` "mild" (at least 0.95), "moderate" (0.8) or "severe"."""
        if not self.order_dependent:
            return "none"
        return "mild" if self.order_ari >= _MILD else "moderate" if self.order_ari >= _MODERATE else "severe"

    @property
    def n_clusters_range(self) -> tuple[int, int]:
        """Smallest and largest number of clusters over the orders, without noise (label -1)."""
        counts = [run["n_clusters"] for run in self.runs if run["kind"] == "order"]
        return min(counts), max(counts)

    @property
    def accuracies(self) -> NDArray[np.float64] | None:
        """Accuracy of every order against `y`, for display only; None if `y` was not passed."""
        accuracies = [run["ACC"] for run in self.runs if run["kind"] == "order" and "ACC" in run]
        return np.array(accuracies) if accuracies else None

    @property
    def unstable_samples(self) -> NDArray[np.intp]:
        """The least stable samples, at most 20, the worst first."""
        worst = np.argsort(-self.sample_instability, kind="stable")[:_N_UNSTABLE]
        return worst[self.sample_instability[worst] > 0]

    @property
    def verdict(self) -> str:
        """The finding in one sentence."""
        orders, n = self.labels.shape
        if not self.order_dependent:
            return f"{self.name} gave the same partition of {n} samples in all {orders} orders."
        at_seed = "" if self.seed is None else " at the same seed"
        verdict = (
            f"{self.name} depends on the order of the rows ({self.severity}): {orders} orders of {n} samples{at_seed} "
            f"agree with a mean ARI of {self.order_ari:.3f}"
        )
        if self.seed is not None:
            verdict += f"; other seeds {self._effect_of_seeds()} ({self.seed_ari:.3f})"
        if not self.repeatable:
            verdict += "; but two runs with the same order and seed differ as well, so the order is not the only cause"
        return verdict + "."

    def _effect_of_seeds(self) -> str:
        if np.all(self.seed_aris == 1):
            return "make no difference"
        if self.seed_ari_interval[0] > self.order_ari_interval[1]:
            return "make less difference"
        if self.seed_ari_interval[1] < self.order_ari_interval[0]:
            return "make more difference"
        return "make about as much difference"

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per fit.

        Columns: kind ("order": another order, same seed; "seed": another seed, same order; "repeat": same order and
        seed as the first fit), seed, permutation (0 is the order given), n_clusters (without noise), ari_to_first,
        seconds; and ACC if `y` was passed.
        """
        return data_frame(list(self.runs))

    def plot(self, ax: Any = None) -> Any:
        """Draw the audit, see `tensormvc.plotting.plot_audit`."""
        return plotting.plot_audit(self, ax=ax)

    def __repr__(self) -> str:
        orders, n = self.labels.shape
        low, high = self.n_clusters_range
        rows = [(f"{orders} orders, one seed", _mean_ari(self.order_ari, self.order_ari_interval))]
        if self.seed is not None:
            rows.append((f"{len(self.seed_labels)} seeds, one order", _mean_ari(self.seed_ari, self.seed_ari_interval)))
        if self.seed_was_set:
            rows.append(("seed", f"{self.seed} for all orders, since the clusterer has random_state=None"))
        rows.append(("clusters", f"{low}" if low == high else f"{low} to {high}"))
        if len(self.unstable_samples):
            rows.append(("least stable samples", ", ".join(map(str, self.unstable_samples[:8]))))
        if self.accuracies is not None:
            rows.append(("accuracy", f"{self.accuracies.min():.3f} to {self.accuracies.max():.3f} (uses y)"))
        rows.append(("cost", f"{len(self.runs)} fits of {n} samples in {self.seconds:.1f} s"))
        return "\n".join([self.verdict, *(f"  {name:<24}{text}" for name, text in rows)])


def audit_order(
    estimator: Any,
    views: Any,
    n_permutations: int = 20,
    random_state: Any = 0,
    y: Any = None,
    sample_graph: Any = None,
    n_jobs: int | None = None,
    *,
    progress: Progress | None = None,
) -> OrderAudit:
    """Test whether the result of a clusterer depends on the order of the rows, and how strongly.

    The same samples are clustered in several orders with one seed, and in one order with several seeds, which
    separates the effect of the order from that of the seed. The estimator itself is not modified.

    Parameters
    ----------
    estimator : object with ``fit_predict``, or function
        Any clusterer, of this package or another. A function takes the views and returns labels; it is called with
        ``random_state=`` if it has a parameter of that name.
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The data. For an estimator of another package, several views are concatenated into one matrix. If the input is
        a distance matrix (``metric="precomputed"`` in scikit-learn), its columns are permuted with its rows.
    n_permutations : int, default=20
        Number of orders, at least 2: the order given and random permutations of it. The same number of seeds is tried.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations and of the bootstrap, and of an estimator that has ``random_state=None``.
    y : array of shape (n_samples,), optional
        True classes, to show accuracies next to the finding. The finding does not use them.
    sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
        Passed to ``fit_predict``, or to the function, as ``sample_graph=``, permuted with the samples.
    n_jobs : int, optional
        Number of fits that run in parallel, through joblib; 1 by default, -1 uses all processors.
    progress : function of two ints, optional
        Called after every fit with the number of finished fits and the total.

    Returns
    -------
    OrderAudit
        Its ``verdict`` states the finding in one sentence.

    Notes
    -----
    The audit takes 2·n_permutations fits: one per order, the order given once more, to check that it is repeatable,
    and one per additional seed; n_permutations + 1 for a clusterer without a seed. Comparing two partitions takes
    O(n).

    Label -1, which scikit-learn uses for noise, is compared like any other label but not counted as a cluster.

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
    check_count(n_permutations, "n_permutations", 2)
    audit_seed = random_seed(random_state)
    rng = np.random.default_rng(audit_seed)
    clusterer = Clusterer(estimator, views, sample_graph, audit_seed)
    n, seed = clusterer.n_samples, clusterer.seed
    check_classes(y, n)
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(n_permutations - 1))]
    runs: list[dict[str, Any]]
    runs = [{"kind": "order", "seed": seed, "permutation": i} for i in range(n_permutations)]
    runs.append({"kind": "repeat", "seed": seed, "permutation": 0})
    if seed is not None:
        runs += [{"kind": "seed", "seed": (seed + i) % 2**31, "permutation": 0} for i in range(1, n_permutations)]
    tasks = [(clusterer, orders[r["permutation"]], r["seed"] if r["kind"] == "seed" else None) for r in runs]
    fits = run_all(_labels_and_seconds, tasks, n_jobs, progress)

    labels = np.stack([found for found, _ in fits])
    partitions = [numbered_by_first(found) for found in labels]
    by_seed = [] if seed is None else [0, *range(n_permutations + 1, len(runs))]
    instability = np.zeros(n)
    order_aris = pairwise_ari(partitions[:n_permutations], instability)
    seed_aris = pairwise_ari([partitions[i] for i in by_seed])
    repeat_ari = pairwise_ari([partitions[0], partitions[n_permutations]])[0, 1]
    order_ari, order_interval = mean_and_interval(order_aris, rng)
    seed_ari, seed_interval = mean_and_interval(seed_aris, rng)
    to_first = [*order_aris[0], repeat_ari, *seed_aris[:1, 1:].ravel()]
    for run, partition, ari, (found, seconds) in zip(runs, partitions, to_first, fits, strict=True):
        n_clusters = int(partition.max()) + 1 - int((found == _NOISE).any())
        run |= {"n_clusters": n_clusters, "ari_to_first": float(ari), "seconds": seconds}
        if y is not None:
            run["ACC"] = metrics.clustering_accuracy(y, found)
    return OrderAudit(
        name=clusterer.name,
        order_dependent=any(not np.array_equal(partition, partitions[0]) for partition in partitions[:n_permutations]),
        repeatable=np.array_equal(partitions[0], partitions[n_permutations]),
        order_ari=order_ari,
        order_ari_interval=order_interval,
        seed_ari=seed_ari,
        seed_ari_interval=seed_interval,
        sample_instability=instability,
        labels=labels[:n_permutations],
        seed_labels=labels[by_seed],
        order_aris=order_aris,
        seed_aris=seed_aris,
        seed=seed,
        seed_was_set=clusterer.seed_was_set,
        runs=tuple(runs),
        seconds=time.perf_counter() - start,
    )


def _labels_and_seconds(clusterer: Clusterer, order: NDArray[np.intp], seed: int | None) -> tuple[Any, float]:
    # Without the fitted estimator, which would be kept, and copied from worker processes.
    return clusterer.run(order, seed)[:2]


def _mean_ari(mean: float, interval: tuple[float, float]) -> str:
    return f"mean pairwise ARI {mean:.3f} (95 % interval {interval[0]:.3f} to {interval[1]:.3f})"


def check_count(value: Any, name: str, least: int) -> None:
    """Refuse what is not an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")


def check_classes(y: Any, n_samples: int) -> None:
    """Refuse classes of another length than the samples."""
    if y is not None and len(y) != n_samples:
        raise ValueError(f"y has {len(y)} labels for {n_samples} samples")
