"""TLRLF4MVC: codes of kernel features, low-rank over the views and of low frequency over the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from ..backend import Array, contiguous, in_double, is_sparse, namespace, on_host, placed
from ..graphs import refuse_missing
from ..penalties import Nuclear
from ..rows import Draw, InMemory, Part, SampleRandom, kmeans_of_rows, row_work, waves
from ..views import Views
from ._base import POSITIVE, TensorClusterer
from ._coefficient_rows import CoefficientRows, coefficient_rows
from ._compressed import Compression, CoordinateBasis, hold_vectors, is_compressible, trimmed
from ._discrete_labels import best_discrete_labels
from ._kernel import Kernel, fit_kernels, ridge_factor, ridge_roots
from ._low_frequency import BetaSchedule, LowFrequencyCodes

_CODE_LENGTH = 64
_MOST_ANCHORS = 1024
# Published are 3, of which the best depends on the seed, and on rounding to single precision.
_RESTARTS = 10
_LABEL_RESTARTS = 10


class TLRLF4MVC(TensorClusterer):
    """TLRLF4MVC: kernel features explain short codes, drawn to a low rank and to low frequencies.

    Long and others, TPAMI 2025; with the transform of your choice. The random starts belong to the values of the
    samples, and the low-frequency basis is the cluster indicators of k-means, as the publication means it.

    Memory: 8 bytes a sample, kernel anchor and view (4 for views in single precision), another 24 bytes a sample and
    anchor of one view at the beginning, 64 × 64 bytes a sample and view, and the basis. Under a transform that is
    square and orthogonal ("fft", "dct", "haar", "random", and "gft" with all components) the rounds run on the
    coefficients, and transform nothing.

    With "agft" and many samples it takes none of that: every iterate lies in the span of a few thousand columns, in
    whose coordinates the rounds run, at a cost that does not depend on the number of samples. Then 1.5 KB a sample for
    codes, graph and k-means (on a device another 8 bytes an anchor of the graph), and 16 bytes a feature; the samples
    are read a few times, in blocks of rows, in O(n).

    Views on disk (`numpy.memmap`, and what `tensormvc.datasets.load_views` leaves there) stay there with "agft": the 16
    bytes a feature are then in temporary files, in the folder that ``TMPDIR`` names. Views of Dask are worked on where
    they are, on the workers of a cluster, with "agft" (docs/distributed.md).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    basis : str or basis, default="auto"
        Transform along the samples. "auto" is "gft-sum" up to 4 000 samples and "agft" beyond.
    lam : float, default=0.01
        Ridge of the kernel regression. The larger, the smoother the codes are as functions of the samples. This default
        and the next two were found together, without classes (docs/defaults.md).
    gamma : float, default=1.0
        Weight of the low rank. The larger, the more the views must agree, up to where nothing is left of the low-rank
        copy and the basis has no say. With the default that is so on much data before the codes come to rest: the
        low rank did worse, without classes, wherever it stayed (docs/defaults.md).
    mu_max : float, default=0.1
        Cap of the penalty that ties the codes to the clusters of k-means. The larger, the more the result keeps to
        them.
    n_kernel_anchors : "auto" or int, default="auto"
        Anchors of the kernel in each view, a power of 2; by default 1024, or a quarter of the samples if that is less.
    view_sizes : sequence of int, optional
        How many columns of a single array belong to each view.
    max_iter : int, default=200
        Most rounds; the published program stops after 100, a little before the codes come to rest.
    tol : float, default=1e-4
        Change of the codes of a view, in the Frobenius norm, at which to stop.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts and of k-means.
    verbose : int, default=0
        1 prints a line a round.
    callback : function of a record, optional
        Called after every round; a true answer ends the fit.
    keep : "all" or None, default=None
        Whether to keep ``representation_``.
    device : str or torch.device, optional
        Where to compute with PyTorch, such as "cuda". By default tensors of PyTorch among the views are worked on on
        their device, everything else with NumPy. What is fitted comes back as NumPy's arrays.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Clusters, numbered by size; there may be fewer than asked for.
    embedding_ : ndarray of shape (n_samples, 64)
        The consensus codes.
    basis_ : basis
        The fitted transform.
    n_iter_ : int
        Rounds.
    converged_ : bool
        Whether the codes came to rest.
    history_ : list of Record
        One a round.
    representation_ : ndarray of shape (n_samples, 64, n_views)
        The codes of the views, in the order that their contents decide; only with ``keep="all"``.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> model = tm.TLRLF4MVC(n_clusters=10, random_state=0).fit(views)
    >>> model.embedding_.shape
    (200, 64)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TensorClusterer._parameter_constraints,
        "lam": POSITIVE,
        "gamma": POSITIVE,
        "mu_max": POSITIVE,
        "n_kernel_anchors": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
        "device": "no_validation",
    }

    def __init__(
        self,
        n_clusters: int = 8,
        basis: Any = "auto",
        lam: float = 0.01,
        gamma: float = 1.0,
        mu_max: float = 0.1,
        n_kernel_anchors: int | str = "auto",
        view_sizes: Sequence[int] | None = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[..., Any] | None = None,
        keep: str | None = None,
        device: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.basis = basis
        self.lam = lam
        self.gamma = gamma
        self.mu_max = mu_max
        self.n_kernel_anchors = n_kernel_anchors
        self.view_sizes = view_sizes
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.keep = keep
        self.device = device

    def _as_views(self, views: Any) -> Views:
        return self._working_views(views, device=self.device, by_blocks=True, on_cluster=True)

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> NDArray[np.intp] | None:
        refuse_missing(views, "TLRLF4MVC")
        rows = views.rows
        basis = self._fit_basis(views, seed, sample_graph)
        random = SampleRandom(views, seed)
        rows.full_beside("points", "views")
        rows.each(_standardise, width=max(views.widths))
        kmeans_of_rows(rows, self.n_clusters, n_init=_RESTARTS, random=random)
        rows.drop("points")
        views.hold_ties()
        kernels = fit_kernels(views, self._depth(views.n_samples))
        rows.drop("ties")
        problem = Problem(
            kernels,
            ridge_roots(rows, kernels, self.lam),
            rows.sum(_cluster_sizes, self.n_clusters),
            [random.draw(_CODE_LENGTH) for _ in range(3)],
        )
        if is_compressible(basis, sum(problem.widths)):
            self._solve_in_coordinates(rows, basis, problem)
        else:
            self._solve_as_given(rows, basis, problem, single_precision=views.single_precision)
        if self.keep == "all":
            self.representation_ = views.given("codes").transpose(0, 2, 1)
        self.embedding_ = views.given("consensus")
        best_discrete_labels(rows, self.n_clusters, n_init=_LABEL_RESTARTS, random=random)
        return None if rows.distributed else np.asarray(on_host(rows["labels"]))

    def _solve_as_given(self, rows: Any, basis: Any, problem: Problem, *, single_precision: bool) -> None:
        m = len(problem.kernels)
        kind = "float32" if single_precision else "float64"
        rows.full_list("factors", problem.widths[-m:], dtype=kind)
        rows.full("frequencies", self.n_clusters)
        for name in ("codes", "low_rank", "low_frequency"):
            rows.full(name, m, _CODE_LENGTH)
        width = max(max(kernel.anchors.shape) for kernel in problem.kernels)
        rows.each(_begin, problem, width=max(rows.product_width(width), width // 4))
        coefficients = None if rows.distributed else coefficient_rows(basis, rows["frequencies"], m, in_turn=True)
        if coefficients is None:
            self._run_codes(rows, basis, m)
        else:
            self._solve_in_coefficients(rows, coefficients, m)

    def _solve_in_coefficients(self, rows: Any, coefficients: CoefficientRows, m: int) -> None:
        """Solve the same problem on the coefficients of the transform, and bring the result back."""
        frequencies = coefficients.into(rows["frequencies"])
        spectral = InMemory(frequencies)
        # One after the other: together they are the most that is held.
        factors = rows["factors"]
        spectral.hold(frequencies=frequencies, factors=[_spectrum(coefficients, factors.pop(0)) for _ in range(m)])
        rows.drop("frequencies", "factors")
        for name in ("codes", "low_rank", "low_frequency"):
            spectral.hold(**{name: coefficients.into(rows[name])})
            rows.drop(name)
        self._run_codes(spectral, coefficients, m)
        for name in ("consensus", "codes") if self.keep == "all" else ("consensus",):
            rows.hold(**{name: coefficients.back(spectral[name])})

    def _solve_in_coordinates(self, rows: Any, basis: Any, problem: Problem) -> None:
        """Solve the same problem in coordinates, which are fewer than the samples, and expand the result."""
        m = len(problem.kernels)
        factor = hold_vectors(basis, rows)
        widths = [len(basis.slice_weights_), *problem.widths]
        # The constant, at least, is in the span of both the transform and the indicators.
        compression = Compression(rows, partial(problem.columns, factor), widths, n_few=len(widths) - m)
        vectors, frequencies, *starts = compression.parts[: len(widths) - m]
        coordinates = InMemory(vectors)
        xp = namespace(vectors)
        coordinates.hold(
            factors=[trimmed(part) for part in compression.parts[-m:]],
            frequencies=contiguous(frequencies),
            **{
                name: xp.stack([start] * m, axis=1)
                for name, start in zip(("codes", "low_rank", "low_frequency"), starts, strict=True)
            },
        )
        self._run_codes(coordinates, CoordinateBasis(vectors), m)
        compression.expand("consensus", coordinates["consensus"])
        if self.keep == "all":
            compression.expand("codes", coordinates["codes"])
        rows.drop("vectors")

    def _run_codes(self, rows: Any, basis: Any, m: int) -> None:
        solver = LowFrequencyCodes(rows, (m, _CODE_LENGTH), basis, Nuclear(), gamma=self.gamma)
        self._run(solver.step, BetaSchedule(self.mu_max))
        solver.close()

    def _depth(self, n: int) -> int:
        if self.n_kernel_anchors == "auto":
            return max(1, int(np.log2(min(_MOST_ANCHORS, max(2, n // 4)))))
        anchors = int(self.n_kernel_anchors)
        if anchors & (anchors - 1) or anchors > n:
            raise ValueError(f"n_kernel_anchors={anchors} must be a power of 2, at most the {n} samples")
        return anchors.bit_length() - 1


@dataclass(frozen=True)
class Problem:
    """What all iterates are made of, for any rows of the samples.

    Attributes
    ----------
    kernels : list of Kernel
        One a view.
    roots : list of arrays
        Of their ridge projections.
    sizes : array of shape (n_clusters,)
        Of the clusters that the "labels" tell.
    draws : list of Draw
        Where codes, low-rank and low-frequency copy start.
    """

    kernels: list[Kernel]
    roots: list[Array]
    sizes: Array
    draws: list[Draw]

    @property
    def widths(self) -> list[int]:
        """Numbers of columns of F, of the starts, and of the factors."""
        starts = [draw.shift.shape[0] for draw in self.draws]
        return [self.sizes.shape[0], *starts, *(root.shape[1] for root in self.roots)]

    def frequencies(self, rows: Part) -> Array:
        """Return F, the indicators of the clusters at unit length: F Fᵀ B has the means of the clusters as its rows."""
        xp = namespace(self.sizes)
        lengths = xp.sqrt(xp.where(self.sizes > 0, self.sizes, xp.ones_like(self.sizes)))
        return _members(rows.labels, self.sizes.shape[0]) / lengths

    def starts(self, rows: Part) -> list[Array]:
        """Return the starts, the same in every view."""
        return [waves(rows.phases, draw) for draw in self.draws]

    def factors(self, rows: Part) -> list[Array]:
        """Return the factors of the ridge projections onto the kernel features."""
        pairs = zip(self.kernels, self.roots, strict=True)
        return [ridge_factor(kernel.features(rows), root) for kernel, root in pairs]

    def columns(self, factor: Array | None, rows: Part) -> Array:
        """Return the transform's columns, which are "vectors" but for a factor, and all others, side by side."""
        vectors = rows.vectors if factor is None else rows.vectors @ factor
        columns = [vectors, self.frequencies(rows), *self.starts(rows), *self.factors(rows)]
        return namespace(vectors).concat(columns, axis=1)


def _spectrum(coefficients: CoefficientRows, factor: Array) -> Array:
    return namespace(factor).astype(coefficients.into(factor), factor.dtype, copy=False)


def _members(labels: Array, n_clusters: int) -> Array:
    """Return 1 for the cluster of each sample, 0 for the others."""
    xp = namespace(labels)
    return xp.astype(labels[:, None] == placed(np.arange(n_clusters), labels), xp.float64)


@row_work(reads="labels")
def _cluster_sizes(rows: Part, n_clusters: int) -> Array:
    labels = rows.labels
    return namespace(labels).sum(_members(labels, n_clusters), axis=0)


@row_work(reads="views labels phases", sets="factors frequencies codes low_rank low_frequency")
def _begin(rows: Part, problem: Problem) -> None:
    for part, factor in zip(rows.factors, problem.factors(rows), strict=True):
        part[...] = factor
    rows.frequencies[...] = problem.frequencies(rows)
    for tensor, start in zip((rows.codes, rows.low_rank, rows.low_frequency), problem.starts(rows), strict=True):
        tensor[...] = start[:, None]


@row_work(reads="views", sets="points")
def _standardise(rows: Part) -> None:
    """Set the views side by side, each sample of each view with mean 0 and deviation 1 over its features."""
    points, left = rows.points, 0
    xp = namespace(points)
    for view in rows.views:
        dense = in_double(view.toarray() if is_sparse(view) else view)
        width = dense.shape[1]
        centred = dense - xp.mean(dense, axis=1, keepdims=True)
        spread = xp.sqrt(xp.sum(centred**2, axis=1, keepdims=True) / max(1, width - 1))
        # What is left of a constant sample is rounding.
        constant = xp.max(dense, axis=1, keepdims=True) == xp.min(dense, axis=1, keepdims=True)
        centred /= xp.where(constant, xp.ones_like(spread), spread)
        points[:, left : left + width] = xp.where(constant, xp.zeros_like(centred), centred)
        left += width
