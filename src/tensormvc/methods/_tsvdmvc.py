"""t-SVD-MVC: self-representation with the tensor nuclear norm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..penalties import Nuclear
from ._admm import Schedule
from ._self_representation import SelfRepresentation, SelfRepresentationClusterer


@dataclass(repr=False, eq=False)
class TSVDMVC(SelfRepresentationClusterer):
    """t-SVD-MVC: the samples of each view represent each other, with representations of low tensor rank.

    Solves, for views X_v (n × d_v) with samples at unit length,

        min  Σ_k w_k ‖𝒵̄_k‖_* + λ ‖[E_1 … E_m]‖_{2,1}    s.t.  X_vᵀ = X_vᵀ Z_v + E_v

    where 𝒵̄_k are the slices of the tensor 𝒵 of all Z_v (n × n) under the basis. The clusters come from spectral
    clustering of the affinity ``Σ_v |Z_v| + |Z_v|ᵀ``.

    Time O(n² Σ_v min(d_v, n)) per iteration, memory about 7 m n² numbers. Use it for up to a few thousand samples,
    where it is on average the most accurate of the tensor methods; for larger data, use `ESTMC` with "agft".

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    basis : str or basis, default="auto"
        Transform along the samples. "auto" is "gft-sum" up to 4 000 samples and "agft" beyond.
    lam : float, default=1.0
        Weight λ of the error. With a larger value, more of every sample must be explained by others; with a small one,
        whole samples count as outliers. Because samples have unit length, it need not be adapted to the scale of the
        data. The default was chosen without labels (docs/defaults.md).
    view_sizes : sequence of int, optional
        Number of columns of each view, if `fit` gets one array.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-7
        Largest allowed residual: the length of the unexplained part of any sample in any view, and the Frobenius norm
        of Z_v − G_v.
    random_state : int, RandomState instance or None, default=None
        Seed of the k-means starts.
    verbose : int, default=0
        1 prints one line per iteration.
    callback : callable, optional
        Called with the record of every iteration; returning True ends the fit.
    keep : "all" or None, default=None
        Whether to keep ``representation_`` and ``affinity_``, which can be gigabytes.
    device : str or torch.device, optional
        Where to compute with PyTorch, such as "cuda". By default PyTorch tensors are processed on their device,
        and everything else with NumPy. Fitted attributes are always NumPy arrays.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of every sample, numbered by size.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        Leading eigenvectors of the normalised affinity, which k-means clusters.
    basis_ : basis
        The fitted transform.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the residuals fell below `tol`.
    history_ : list of Record
        Residuals, objective, penalty parameters and seconds of every iteration.
    representation_ : ndarray of shape (n_samples, n_samples, n_views)
        Z, only with ``keep="all"``; the views are sorted by their contents.
    affinity_ : ndarray of shape (n_samples, n_samples)
        ``Σ_v |Z_v| + |Z_v|ᵀ``, only with ``keep="all"``.

    References
    ----------
    Y. Xie, D. Tao, W. Zhang, Y. Liu, L. Zhang, Y. Qu, "On Unifying Multi-View Self-Representations for Clustering by
    Tensor Multi-Rank Minimization", International Journal of Computer Vision 126, 2018.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(120)
    >>> model = tm.TSVDMVC(n_clusters=10, random_state=0).fit(views)
    >>> model.labels_.shape, model.converged_
    ((120,), True)
    """

    n_clusters: int = 8
    basis: Any = "auto"
    lam: float = 1.0
    view_sizes: Sequence[int] | None = None
    max_iter: int = 200
    tol: float = 1e-7
    random_state: Any = None
    verbose: int = 0
    callback: Callable[..., Any] | None = None
    keep: str | None = None
    device: Any = None

    def _problem(self, parts: list[Any], basis: Any) -> tuple[SelfRepresentation, Schedule]:
        problem = SelfRepresentation(parts, basis, Nuclear(), self.lam, stacked=True)
        return problem, Schedule({"mu": 1e-4, "rho": 1e-4}, {"mu": 1e11, "rho": 1e13})
