"""How a clustering changes as more and more rows are shuffled."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import metrics, plotting
from ..backend.checks import random_seed
from ..backend.frames import data_frame
from ..bases import FFT, ViewFFT
from ..datasets._shuffle import shuffled_positions, take_samples
from ..diagnostics import circular_total_variation, compact_similarities, low_frequency_share
from ..views import as_views
from ._agreement import numbered_by_first, pairwise_ari
from ._audit import Progress, check_classes, check_count
from ._clusterers import Clusterer, is_ours, run_all

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class ShuffleSweep:
    """Result of `shuffle_sweep`: arrays with one row per shuffle rate and one column per repeat.

    At rate 0 there is nothing to repeat, and all columns hold the same result.

    Parameters
    ----------
    name : str
        Name of the clusterer.
    rates : ndarray of shape (n_rates,)
        Shuffle rates.
    ari : ndarray of shape (n_rates, n_repeats)
        Adjusted Rand index with the partition of the unshuffled rows, at the same seed.
    accuracy : ndarray of shape (n_rates, n_repeats) or None
        Accuracy against `y`, if it was passed; `y` is used for nothing else.
    ctv : ndarray of shape (n_rates, n_repeats)
        Circular total variation of the similarity tensor of the shuffled views, whatever the clusterer.
    low_frequency_share : ndarray of shape (n_rates, n_repeats)
        Share of the similarity tensor's energy, without the first slice, in the lowest 5 % of the frequencies.
    basis : str
        Basis of those frequencies: the clusterer's own if it has one along the samples, else the FFT.
    labels : ndarray of shape (n_rates, n_repeats, n_samples)
        Labels, with the samples in the order given.
    n_samples : int
        Number of samples.
    seconds : float
        Duration of the sweep.

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
    labels: NDArray[np.int64]
    n_samples: int
    seconds: float

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per shuffle rate and repeat."""
        rate, repeat = np.indices(self.ari.shape)
        columns = {"rate": self.rates[rate], "repeat": repeat, "ari": self.ari, "ctv": self.ctv}
        columns["low_frequency_share"] = self.low_frequency_share
        if self.accuracy is not None:
            columns["ACC"] = self.accuracy
        return data_frame({name: values.ravel() for name, values in columns.items()})

    def plot(self, ax: Any = None) -> Any:
        """Draw the sweep, see `tensormvc.plotting.plot_shuffle_sweep`."""
        return plotting.plot_shuffle_sweep(self, ax=ax)

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
    progress: Progress | None = None,
) -> ShuffleSweep:
    """Cluster the samples at several shuffle rates, and measure the effect on the data and on the result.

    At rate r, ⌊r n⌋ random rows are permuted among themselves, see `datasets.shuffle_samples`. To reproduce the
    paper's figures, start from rows that are sorted by class.

    Parameters
    ----------
    estimator : object with ``fit_predict``, or function
        As in `audit_order`. All fits use the same seed.
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The data, as in `audit_order`.
    y : array of shape (n_samples,), optional
        True classes, used only to measure the accuracy.
    rates : sequence of float, default=(0, 0.1, …, 1)
        Shuffle rates between 0 and 1.
    n_repeats : int, default=5
        Number of shuffles at each rate above 0.
    random_state : int, RandomState instance or None, default=0
        Seed of the shuffles, and of an estimator that has ``random_state=None``.
    sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
        Passed to ``fit_predict``, or to the function, as ``sample_graph=``, permuted with the samples.
    n_jobs : int, optional
        Number of fits that run in parallel, through joblib; 1 by default, -1 uses all processors.
    progress : function of two ints, optional
        Called after every fit with the number of finished fits and the total.

    Returns
    -------
    ShuffleSweep

    Notes
    -----
    The n × n × m similarity tensor is never formed: its spectrum and variation follow from n × d_v matrices.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60, class_sorted=True)
    >>> sweep = tm.shuffle_sweep(tm.GMC(10), views, rates=(0, 1), n_repeats=2)
    >>> bool((sweep.ctv[1] > sweep.ctv[0]).all())
    True
    """
    start = time.perf_counter()
    check_count(n_repeats, "n_repeats", 1)
    seed = random_seed(random_state)
    clusterer = Clusterer(estimator, views, sample_graph, seed)
    n = clusterer.n_samples
    check_classes(y, n)
    shuffle_rates = np.asarray(rates, dtype=np.float64)
    if shuffle_rates.ndim != 1 or len(shuffle_rates) == 0:
        raise ValueError(f"rates must be a list of numbers between 0 and 1, got {rates!r}")
    rng = np.random.RandomState(seed)
    # All orders are compared with the first, in which nothing is shuffled; at rate 0 there is no other.
    orders = [np.arange(n)]
    order_of = np.zeros((len(shuffle_rates), n_repeats), dtype=np.intp)
    for i, j in np.argwhere(np.repeat(shuffle_rates[:, None] != 0, n_repeats, axis=1)):
        order_of[i, j] = len(orders)
        orders.append(shuffled_positions(n, float(shuffle_rates[i]), rng))
    results = run_all(_labels_and_spectrum, [(clusterer, views, order) for order in orders], n_jobs, progress)
    labels, ctv, shares, bases = zip(*results, strict=True)
    first = numbered_by_first(labels[0])
    aris = np.array([pairwise_ari([first, numbered_by_first(found)])[0, 1] for found in labels])
    accuracies = None if y is None else np.array([metrics.clustering_accuracy(y, found) for found in labels])
    return ShuffleSweep(
        name=clusterer.name,
        rates=shuffle_rates,
        ari=aris[order_of],
        accuracy=None if accuracies is None else accuracies[order_of],
        ctv=np.array(ctv)[order_of],
        low_frequency_share=np.array(shares)[order_of],
        basis=bases[0],
        labels=np.stack(labels)[order_of],
        n_samples=n,
        seconds=time.perf_counter() - start,
    )


def _labels_and_spectrum(
    clusterer: Clusterer, views: Any, order: NDArray[np.intp]
) -> tuple[NDArray[np.int64], float, float, str]:
    """Return the labels, the total variation, the low-frequency share and the name of its basis."""
    labels, _, fitted = clusterer.run(order)
    ours = is_ours(fitted)
    basis = getattr(fitted, "basis_", None) if ours else None
    if basis is None or isinstance(basis, ViewFFT):
        basis = FFT()
    shuffled = as_views(
        take_samples(views, order),
        view_sizes=fitted.view_sizes if ours else None,
        # A basis that was fitted to the data expects the samples in the order in which it was fitted.
        canonical=getattr(basis, "adapts_to_data", False),
    ).on_host()
    rows = compact_similarities(shuffled)
    variation = circular_total_variation(shuffled.to_given_order(rows))
    return labels, variation, low_frequency_share(rows, basis), repr(basis)
