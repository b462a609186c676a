"""TLRLF4MVC: codes of kernel features, low-rank over the views and of low frequency over the samples.

With P_v (n × a) the centred Gaussian similarities of the samples to the anchors of view v, and 𝓑 (n × 64 × m) the
tensor of the codes B_v of all views:

    min   Σ_v (½ ‖B_v − P_v W_v‖² + λ/2 ‖W_v‖²) + γ Σ_k w_k ‖𝓒̄_k‖_*
    s.t.  B_v = B̂,   𝓑 = 𝓒,   B_v = Y_v ∈ span(F)

where 𝓒̄_k are the slices of 𝓒 under the basis, F (n × c) has the normalised indicators of the clusters of k-means, and
B̂ is the consensus. ADMM has multipliers Q1, Q2, Q3 and penalty parameters β1, β2, β3; `round` has the updates in
order.

The regression is eliminated: with A_v = P_v R, R Rᵀ = (P_vᵀP_v + λI)^{-1}, its fit is A_v A_vᵀ B_v. Q1 has no mean over
the views after any round, and Q3 nothing in the span of F: they begin at zero, and a step of length 1.5 turns such a
part p of them into −p/2. So B̂ is the mean of the B_v, Y_v is F Fᵀ B_v, and only the sum of Q1 and Q3 is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..backend.arrays import Array, contiguous, in_double, is_sparse, namespace, placed
from ..backend.linalg import matmul_into
from ..penalties import Nuclear
from ..rows import Draw, InMemory, RowArrays, Rows, SampleRandom, kmeans_of_rows, row_work, waves
from ..views import Views
from ._admm import Schedule, Step
from ._base import POSITIVE, TensorClusterer
from ._coordinates import ColumnRows, Coordinates, SampleCoordinates, SpanCoordinates, coefficients_of, is_compressible
from ._discrete_labels import best_discrete_labels
from ._kernel import Kernel, fit_kernels, ridge_factor, ridge_roots

_CODE_LENGTH = 64
_MOST_ANCHORS = 1024
# The published program uses 3, with which the best run depends on the seed and on rounding to single precision.
_RESTARTS = 10
_LABEL_RESTARTS = 10
# Length of the multiplier steps.
_STEP = 1.5
_GROWTH = 1.5
# A residual that keeps more than this share of its last value is slow.
_SLOW = 0.95


class BetaSchedule(Schedule):
    """Penalty parameters of which each grows when its own residual falls too slowly.

    From the second iteration on, a parameter is multiplied by 1.5, up to its cap, if the residual of the same name
    exceeds 0.95 of what it was an iteration before.

    Parameters
    ----------
    mu_max : float
        Cap of the parameter of the low-frequency copy.
    """

    def __init__(self, mu_max: float) -> None:
        values = {"consensus": 1e-3, "low_rank": 1e-3, "low_frequency": min(1e-4, mu_max)}
        super().__init__(values, {"consensus": 1e5, "low_rank": 1e5, "low_frequency": mu_max}, _GROWTH)
        self._last: dict[str, float] = {}

    def advance(self, residuals: Mapping[str, float]) -> None:
        """Go to the parameters of the next iteration."""
        for name, value in self.values.items():
            if name in self._last and residuals[name] > _SLOW * self._last[name]:
                self.values[name] = min(value * self.factor, self.caps[name])
            self._last[name] = residuals[name]


@dataclass
class CodeRows(RowArrays):
    """Row arrays of the loop; tensors are (n, m, 64), in double precision: tiny residuals decide how penalties grow.

    Attributes
    ----------
    starts : list of arrays
        F (n, c), and where B, C and Y start, (n, 64) each, the same in all views.
    factors : list of arrays (n, a_v)
        A_v; if it has fewer rows, the others are zero.
    frequencies : array of shape (n, c)
        F.
    codes, low_rank, low_frequency : arrays of shape (n, m, 64)
        𝓑, 𝓒 and Y.
    q13, q2 : arrays of shape (n, m, 64)
        Q1 + Q3, and Q2.
    shifted : array of shape (n, m, 64)
        𝓑 + Q2/β2, of which 𝓒 is made.
    consensus : array of shape (n, 64)
        B̂.
    """

    starts: list[Array]
    factors: list[Array]
    frequencies: Array
    codes: Array
    low_rank: Array
    low_frequency: Array
    q13: Array
    q2: Array
    shifted: Array
    consensus: Array


def begin(rows: Rows, n_views: int, n_frequencies: int, code_length: int) -> list[Array]:
    """Create the arrays of the loop from the "starts" of rows; return B_vᵀA_v of every view."""
    shape = n_views, code_length
    rows.create(codes=shape, low_rank=shape, low_frequency=shape, q13=shape, q2=shape, shifted=shape)
    rows.create(frequencies=(n_frequencies,), consensus=(code_length,))
    coefficients = rows.sum(_begin)
    rows.drop("starts")
    return coefficients


@row_work(reads="starts factors", sets="frequencies codes low_rank low_frequency consensus")
def _begin(rows: CodeRows) -> list[Array]:
    rows.frequencies[...], codes, low_rank, low_frequency = rows.starts
    for tensor, start in ((rows.codes, codes), (rows.low_rank, low_rank), (rows.low_frequency, low_frequency)):
        tensor[...] = start if start.ndim == 3 else start[:, None]
    rows.consensus[...] = namespace(rows.codes).mean(rows.codes, axis=1)
    return _coefficients(rows.codes, rows.factors)


def round(
    rows: Rows, coordinates: Coordinates, coefficients: list[Array], gamma: float, betas: tuple[float, float, float]
) -> tuple[list[Array], Step]:
    """Do one round: the updates of B, B̂, C, Y and the multipliers in order; return B_vᵀA_v, and the residuals."""
    sums = rows.sum_later(_update_codes, coefficients, betas)
    # C ← shrink(B + Q2/β2), with threshold γ/β2
    nuclear_norm = coordinates.shrink_rows(rows, "shifted", "low_rank", Nuclear(), gamma / betas[1])
    change, consensus, squares, spectrum, *coefficients = sums()
    low_rank, low_frequency = rows.sum(_update_copies, spectrum, betas)
    gaps = {"change": change, "consensus": consensus, "low_rank": low_rank, "low_frequency": low_frequency}
    residuals = {name: float(values.max()) ** 0.5 for name, values in gaps.items()}
    # ‖B − A AᵀB‖² + λ ‖W‖² at the best W is ‖B‖² − ‖AᵀB‖².
    unexplained = float(squares.sum()) - sum(float(namespace(part).sum(part**2)) for part in coefficients)
    objective = unexplained / 2 + gamma * nuclear_norm
    return coefficients, Step(residuals, stop=residuals["change"], objective=objective)


def _coefficients(codes: Array, factors: list[Array]) -> list[Array]:
    """Return B_vᵀA_v of every view, with the long side last, which matrix products like better."""
    return [contiguous(codes[: part.shape[0], v].T) @ in_double(part) for v, part in enumerate(factors)]


@row_work(
    reads="factors frequencies low_rank low_frequency q2", writes="codes consensus q13", sets="shifted", products=True
)
def _update_codes(rows: CodeRows, coefficients: list[Array], betas: tuple[float, float, float]) -> list[Array]:
    """Update B, B̂ and Q1, and what C is made of; return ‖ΔB_v‖², ‖B_v − B̂‖², ‖B_v‖², FᵀB, and B_vᵀA_v."""
    beta1, beta2, beta3 = betas
    codes, consensus, q13, q2 = rows.codes, rows.consensus, rows.q13, rows.q2
    xp, factors = namespace(codes), rows.factors
    new, term = (rows.room(name, codes.shape, codes) for name in ("new", "term"))
    # B_v ← (A_v A_vᵀ B_v + β1 B̂ − Q1 + β2 C_v − Q2 + β3 Y_v − Q3) / (1 + β1 + β2 + β3)
    for v, part in enumerate(factors):
        new[: part.shape[0], v] = (coefficients[v] @ in_double(part).T).T
        new[part.shape[0] :, v] = 0
    new += xp.multiply(rows.low_rank, beta2, out=term)
    new += xp.multiply(rows.low_frequency, beta3, out=term)
    new += (beta1 * consensus)[:, None]
    new -= q13
    new -= q2
    new /= beta1 + beta2 + beta3 + 1
    codes -= new
    change = _squares(codes)
    codes[...] = new
    # B̂ ← mean of B_v;  Q1 += 1.5 β1 (B_v − B̂)
    consensus[...] = xp.mean(new, axis=1)
    gap = _ascend(q13, xp.subtract(new, consensus[:, None], out=term), beta1)
    shifted = xp.multiply(q2, 1 / beta2, out=rows.shifted)
    shifted += new
    spectrum = rows.frequencies.T @ xp.reshape(new, (new.shape[0], -1))
    return [change, gap, _squares(new), spectrum, *_coefficients(new, factors)]


@row_work(reads="codes low_rank frequencies", writes="q13 q2", sets="low_frequency")
def _update_copies(rows: CodeRows, spectrum: Array, betas: tuple[float, float, float]) -> list[Array]:
    """Update Y ← F FᵀB, Q2 and Q3; return ‖B_v − C_v‖² and ‖B_v − Y_v‖²."""
    codes, low_frequency = rows.codes, rows.low_frequency
    xp = namespace(codes)
    matmul_into(rows.frequencies, spectrum, xp.reshape(low_frequency, (low_frequency.shape[0], -1)))
    room = rows.room("gap", codes.shape, codes)
    return [
        _ascend(multiplier, xp.subtract(codes, copy, out=room), beta)
        for multiplier, copy, beta in ((rows.q2, rows.low_rank, betas[1]), (rows.q13, low_frequency, betas[2]))
    ]


def _ascend(multiplier: Array, gap: Array, beta: float) -> Array:
    """Move a multiplier along its gap, which is overwritten; return the sum of squares of the gap in each view."""
    squares = _squares(gap)
    gap *= _STEP * beta
    multiplier += gap
    return squares


def _squares(tensor: Array) -> Array:
    """Return the sum of squares of each view."""
    return namespace(tensor).einsum("ivj,ivj->v", tensor, tensor)


@dataclass(frozen=True)
class CodeColumns:
    """What all iterates are made of, for any rows of the samples; implements `Columns`.

    Attributes
    ----------
    kernels : list of Kernel
        One per view.
    roots : list of arrays
        R of the ridge regressions.
    sizes : array of shape (n_clusters,)
        Sizes of the clusters of k-means, which are the "labels".
    draws : list of Draw
        Random starts of B, C and Y.
    """

    kernels: list[Kernel]
    roots: list[Array]
    sizes: Array
    draws: list[Draw]

    @property
    def widths(self) -> tuple[list[int], list[int]]:
        """Numbers of columns of F and the starts, and of the factors."""
        starts = [draw.shift.shape[0] for draw in self.draws]
        return [self.sizes.shape[0], *starts], [root.shape[1] for root in self.roots]

    def of(self, rows: ColumnRows) -> tuple[list[Array], list[Array]]:
        """Return F and the starts, the same in every view, and the factors A_v."""
        factors = zip(self.kernels, self.roots, strict=True)
        return (
            [self.frequencies(rows.labels), *(waves(rows.phases, draw) for draw in self.draws)],
            [ridge_factor(kernel.features(rows.views), root) for kernel, root in factors],
        )

    def frequencies(self, labels: Array) -> Array:
        """Return F, the indicators of the clusters at unit length: F Fᵀ B has the means of the clusters as its rows."""
        xp = namespace(self.sizes)
        lengths = xp.sqrt(xp.where(self.sizes > 0, self.sizes, xp.ones_like(self.sizes)))
        return _members(labels, self.sizes.shape[0]) / lengths


def _members(labels: Array, n_clusters: int) -> Array:
    """Return 1 for the cluster of each sample, 0 for the others."""
    xp = namespace(labels)
    return xp.astype(labels[:, None] == placed(np.arange(n_clusters), labels), xp.float64)


@dataclass
class FeatureRows(RowArrays):
    """The views, the standardised views side by side, and their clusters by k-means."""

    views: list[Array]
    points: Array
    labels: Array


@row_work(reads="labels")
def _cluster_sizes(rows: FeatureRows, n_clusters: int) -> Array:
    return namespace(rows.labels).sum(_members(rows.labels, n_clusters), axis=0)


@row_work(reads="views", sets="points")
def _standardise(rows: FeatureRows) -> None:
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


@dataclass(repr=False, eq=False)
class TLRLF4MVC(TensorClusterer):
    """TLRLF4MVC: short codes explained by kernel features, of low tensor rank and low frequency.

    Solves, for centred Gaussian similarities P_v (n × a) of the samples to the anchors of view v,

        min  Σ_v (½ ‖B_v − P_v W_v‖² + λ/2 ‖W_v‖²) + γ Σ_k w_k ‖𝓑̄_k‖_*    s.t.  B_v = B̂,  B_v ∈ span(F)

    where 𝓑̄_k are the slices of the tensor 𝓑 of all codes B_v (n × 64) under the basis, B̂ is the consensus and F has
    the indicators of the clusters of k-means. Each sample goes to the cluster centre that agrees most with its code.
    Random starts depend on the values of the samples, not on their positions.

    Time O(n a m) per iteration; under a square orthogonal basis ("fft", "dct", "haar", "random", "gft-…") an iteration
    needs no transforms. With "agft" and many samples the cost of an iteration does not depend on n, because all
    iterates lie in the span of a few thousand columns; memory is then O(n (Σ_v d_v + 64)). Use it for curved clusters,
    for which kernels help.

    With "agft", views on disk (`numpy.memmap`, and files opened by `tensormvc.datasets.load_views`) are not read into
    memory; the fit needs temporary files as large as the views, in the folder named by ``TMPDIR``. Dask arrays and
    dataframes are processed by the workers of their cluster (docs/distributed.md). The labels are the same, as a Dask
    array for Dask.

    With "agft", `predict` assigns new samples to clusters through the anchors.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    basis : str or basis, default="auto"
        Transform along the samples. "auto" is "gft-sum" up to 4 000 samples and "agft" beyond.
    lam : float, default=0.01
        Ridge λ of the kernel regression. With a larger value, the codes are smoother functions of the samples. This
        default, the next two and `max_iter` were chosen together, without labels (docs/defaults.md).
    gamma : float, default=0.03
        Weight γ of the low-rank term. With a larger value, the views must agree more; if it is too large, the low-rank
        copy becomes zero and the basis has no effect.
    mu_max : float, default=0.1
        Cap of the penalty that ties the codes to the clusters of k-means. With a larger value, the result stays
        closer to them.
    n_kernel_anchors : "auto" or int, default="auto"
        Number of kernel anchors per view, a power of 2; by default 1024, or a quarter of the samples if that is less.
    view_sizes : sequence of int, optional
        Number of columns of each view, if `fit` gets one array.
    max_iter : int, default=20
        Number of iterations, unless the codes converge before. It is a parameter of the model: the minimum of the
        problem is at zero codes, and the labels come from the codes before they vanish (docs/defaults.md). With
        thousands of samples, 30 are sometimes better; `select_model` can choose, without labels.
    tol : float, default=1e-4
        Change of the codes of a view, in the Frobenius norm, at which to stop.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts and of k-means.
    verbose : int, default=0
        1 prints one line per iteration.
    callback : callable, optional
        Called with the record of every iteration; returning True ends the fit.
    keep : "all" or None, default=None
        Whether to keep ``representation_``, which can be gigabytes.
    device : str or torch.device, optional
        Where to compute with PyTorch, such as "cuda". By default PyTorch tensors are processed on their device,
        and everything else with NumPy. Fitted attributes are always NumPy arrays.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of every sample, numbered by size.
    embedding_ : ndarray of shape (n_samples, 64)
        The consensus codes B̂.
    basis_ : basis
        The fitted transform.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the codes converged.
    history_ : list of Record
        Residuals, objective, penalty parameters and seconds of every iteration.
    representation_ : ndarray of shape (n_samples, 64, n_views)
        Codes of the views, sorted by their contents; only with ``keep="all"``.

    References
    ----------
    Z. Long, Q. Wang, Y. Ren, Y. Liu, C. Zhu, "TLRLF4MVC: Tensor Low-Rank and Low-Frequency for Scalable Multi-View
    Clustering", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2025.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> model = tm.TLRLF4MVC(n_clusters=10, random_state=0).fit(views)
    >>> model.embedding_.shape
    (200, 64)
    """

    works_on_rows = True
    stops_early = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TensorClusterer._parameter_constraints,
        "lam": POSITIVE,
        "gamma": POSITIVE,
        "mu_max": POSITIVE,
        "n_kernel_anchors": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
    }

    n_clusters: int = 8
    basis: Any = "auto"
    lam: float = 0.01
    gamma: float = 0.03
    mu_max: float = 0.1
    n_kernel_anchors: int | str = "auto"
    view_sizes: Sequence[int] | None = None
    max_iter: int = 20
    tol: float = 1e-4
    random_state: Any = None
    verbose: int = 0
    callback: Callable[..., Any] | None = None
    keep: str | None = None
    device: Any = None

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> None:
        views.refuse_missing("TLRLF4MVC", "MultiViewClustering")
        rows, m = views.rows, views.n_views
        basis = self._fit_basis(views, seed, sample_graph)
        random = SampleRandom(views, seed)
        rows.create(points=(sum(views.widths),), wide=True)
        rows.each(_standardise)
        kmeans_of_rows(rows, self.n_clusters, n_init=_RESTARTS, random=random)
        rows.drop("points")
        kernels = fit_kernels(views, self._depth(views.n_samples))
        rows.drop("ties")
        columns = CodeColumns(
            kernels,
            ridge_roots(rows, kernels, self.lam),
            rows.sum(_cluster_sizes, self.n_clusters),
            [random.draw(_CODE_LENGTH) for _ in range(3)],
        )
        coordinates = self._coordinates(views, basis, columns)
        inside = coordinates.enter(rows, columns, dtype="float32" if views.single_precision else "float64")
        coefficients = begin(inside, m, self.n_clusters, _CODE_LENGTH)

        def step(penalties: dict[str, float]) -> Step:
            nonlocal coefficients
            betas = penalties["consensus"], penalties["low_rank"], penalties["low_frequency"]
            coefficients, done = round(inside, coordinates, coefficients, self.gamma, betas)
            return done

        self._run(step, BetaSchedule(self.mu_max))
        inside.drop("factors", "frequencies", "low_rank", "low_frequency", "q13", "q2", "shifted")
        coordinates.leave(inside, rows, "consensus")
        self.embedding_ = views.rows_as_given("consensus")
        if self.keep == "all":
            coordinates.leave(inside, rows, "codes")
            self.representation_ = views.rows_as_given("codes").transpose(0, 2, 1)
        best_discrete_labels(rows, self.n_clusters, n_init=_LABEL_RESTARTS, random=random)

    def _coordinates(self, views: Views, basis: Any, columns: CodeColumns) -> Coordinates:
        """Return the coordinates in which the rounds cost least."""
        rows, (starts, factors) = views.rows, columns.widths
        if is_compressible(basis, sum(starts) + sum(factors)):
            return SpanCoordinates(rows, basis, columns)
        if isinstance(rows, InMemory):
            like = views.place(np.empty((views.n_samples, 0)))
            if (coefficients := coefficients_of(basis, like, views.n_views)) is not None:
                return coefficients
        return SampleCoordinates(basis, views.n_samples)

    def _depth(self, n: int) -> int:
        if self.n_kernel_anchors == "auto":
            return max(1, int(np.log2(min(_MOST_ANCHORS, max(2, n // 4)))))
        anchors = int(self.n_kernel_anchors)
        if anchors & (anchors - 1) or anchors > n:
            raise ValueError(f"n_kernel_anchors={anchors} must be a power of 2, at most the {n} samples")
        return anchors.bit_length() - 1
