"""TLRLF4MVC: codes of kernel features, low-rank over the views and of low frequency over the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from .._executors import row_blocks
from .._kmeans import kmeans
from .._ops import is_sparse, on_host
from .._sample_random import SampleRandom
from .._scratch import is_on_disk, scratch_array
from .._views import Views
from ..graphs import refuse_missing
from ..penalties import Nuclear
from ._base import POSITIVE, TensorClusterer
from ._compressed import Compression, CoordinateBasis, basis_vectors, is_compressible, trimmed
from ._kernel import KernelFeatures, RidgeFactor
from ._low_frequency import BetaSchedule, LowFrequencyCodes, best_discrete_labels, cluster_indicators

_CODE_LENGTH = 64
_MOST_ANCHORS = 1024
_RESTARTS = 3
_LABEL_RESTARTS = 10


class TLRLF4MVC(TensorClusterer):
    """TLRLF4MVC: kernel features explain short codes, drawn to a low rank and to low frequencies.

    Long and others, TPAMI 2025; with the transform of your choice. The random starts belong to the values of the
    samples, and the low-frequency basis is the cluster indicators of k-means, as the publication means it.

    Memory: 8 bytes a sample, kernel anchor and view (4 for views in single precision), 64 × 56 bytes a sample and view,
    and the basis. With "agft" and many samples, none of that: every iterate lies in the span of a few thousand columns,
    in whose coordinates the rounds run, at a cost that does not depend on the number of samples. Then 2 KB a sample for
    the columns of the transform (8 bytes an anchor of it), 2 KB for codes and starts, and 16 bytes a feature; the
    samples are read a few times, in blocks of rows, in O(n). Views on disk (`numpy.memmap`, and what
    `tensormvc.datasets.load_views` leaves there) stay there: the 16 bytes a feature are then in temporary files, in the
    folder that ``TMPDIR`` names.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    basis : str or basis, default="auto"
        Transform along the samples. "auto" is "gft-sum" up to 4 000 samples and "agft" beyond.
    lam : float, default=0.001
        Ridge of the kernel regression. The larger, the smoother the codes are as functions of the samples. This default
        and the next two were found together, without classes (docs/defaults.md).
    gamma : float, default=0.01
        Weight of the low rank. The larger, the more the views must agree.
    mu_max : float, default=0.01
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
    }

    def __init__(
        self,
        n_clusters: int = 8,
        basis: Any = "auto",
        lam: float = 0.001,
        gamma: float = 0.01,
        mu_max: float = 0.01,
        n_kernel_anchors: int | str = "auto",
        view_sizes: Sequence[int] | None = None,
        max_iter: int = 200,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[..., Any] | None = None,
        keep: str | None = None,
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

    def _as_views(self, views: Any) -> Views:
        return self._working_views(views, by_blocks=True).on_host()

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> NDArray[np.intp]:
        refuse_missing(views, "TLRLF4MVC")
        basis = self._fit_basis(views, seed, sample_graph)
        depth, ties = self._depth(views.n_samples), on_host(views.probes(1))[:, 0]
        parts = [on_host(array) for array in views.arrays]
        random = SampleRandom(views, seed)
        groups, _ = kmeans(_standardised(parts), self.n_clusters, n_init=_RESTARTS, random=random)
        solver, expand = self._problem(
            basis,
            [KernelFeatures(part, depth, ties) for part in parts],
            cluster_indicators(groups, self.n_clusters),
            [on_host(random.waves(_CODE_LENGTH)) for _ in range(3)],
        )
        self._run(solver.step, BetaSchedule(self.mu_max))
        if self.keep == "all":
            self.representation_ = views.to_given_order(expand(solver.codes))
        consensus = expand(solver.consensus)
        self.embedding_ = views.to_given_order(consensus)
        return best_discrete_labels(consensus, self.n_clusters, n_init=_LABEL_RESTARTS, random=random)

    def _problem(
        self, basis: Any, features: list[KernelFeatures], frequencies: Any, start: list[NDArray[np.float64]]
    ) -> tuple[LowFrequencyCodes, Callable[[Any], Any]]:
        """Return the solver, and what makes rows of samples of its results: in coordinates where these are fewer."""
        n_columns = self.n_clusters + 3 * _CODE_LENGTH + sum(part.shape[1] for part in features)
        if not is_compressible(basis, n_columns):
            whole = (part[:] for part in features)
            solver = LowFrequencyCodes(
                whole, frequencies, basis, Nuclear(), lam=self.lam, gamma=self.gamma, start=tuple(start)
            )
            return solver, lambda rows: rows
        factors = [RidgeFactor(part, self.lam) for part in features]
        # The constant, at least, is in the span of both the transform and the indicators.
        compression = Compression([basis_vectors(basis), frequencies, *start], factors)
        vectors, frequencies, b, c, y, *projections = compression.parts
        solver = LowFrequencyCodes(
            [trimmed(part) for part in projections],
            frequencies,
            CoordinateBasis(vectors),
            Nuclear(),
            lam=None,
            gamma=self.gamma,
            start=(b, c, y),
        )
        return solver, compression.expand

    def _depth(self, n: int) -> int:
        if self.n_kernel_anchors == "auto":
            return max(1, int(np.log2(min(_MOST_ANCHORS, max(2, n // 4)))))
        anchors = int(self.n_kernel_anchors)
        if anchors & (anchors - 1) or anchors > n:
            raise ValueError(f"n_kernel_anchors={anchors} must be a power of 2, at most the {n} samples")
        return anchors.bit_length() - 1


def _standardised(parts: list[Any]) -> NDArray[np.float64]:
    """Return the views side by side, each sample of each view with mean 0 and deviation 1 over its features.

    It is on disk if one of the views is.
    """
    shape = parts[0].shape[0], sum(part.shape[1] for part in parts)
    made = scratch_array(shape, np.float64) if any(map(is_on_disk, parts)) else np.empty(shape)
    for rows in row_blocks(len(made)):
        left = 0
        for part in parts:
            some = part[rows]
            dense = np.asarray(some.toarray() if is_sparse(some) else some, dtype=np.float64)
            centred = dense - dense.mean(axis=1, keepdims=True)
            spread = centred.std(axis=1, ddof=min(1, dense.shape[1] - 1), keepdims=True)
            made[rows, left : left + dense.shape[1]] = centred / np.where(spread > 0, spread, 1)
            left += dense.shape[1]
    return made
