"""ESTMC: representation by anchors, with a choice of non-convex penalties."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.utils._param_validation import HasMethods

from ..penalties import make_penalty
from ._anchor_representation import AnchorRepresentationClusterer, Weights


@dataclass(repr=False, eq=False)
class ESTMC(AnchorRepresentationClusterer):
    """ESTMC: orthonormal anchors represent every view, and a non-convex penalty keeps the tensor rank low.

    Solves, for views X_v (n × d_v) with samples at unit length,

        min  Σ_k w_k Σ_i ψ(σ_i(𝒵̄_k)) + α ‖[E_1 … E_m]‖_{2,1}    s.t.  X_v = Z_v A_v + E_v,  A_v A_vᵀ = I

    where 𝒵̄_k are the slices of the tensor 𝒵 of all Z_v (n × l) under the basis, ψ is the penalty and A_v (l × d_v) are
    the anchors. The clusters come from k-means on the leading left singular vectors of [Z_1 … Z_m]. (The publication's
    stronger variant with further regularisers is not implemented.)

    With "agft" time is O(n l Σ_v d_v) per iteration and memory O(n (Σ_v d_v + l m)). Use it for large data.

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
    alpha : float, default=2.0
        Weight α of the error. With a larger value, the anchors must explain more of every sample, and the rank is
        higher; if it is too small, the rank falls below the number of clusters. Because samples have unit length, it
        need not be adapted to the scale of the data. The default was chosen without labels (docs/defaults.md).
    penalty : str or penalty, default="etr"
        Penalty ψ on the singular values: a name, an instance from `tensormvc.penalties`, or your own.
    n_latent : int, optional
        Number of anchors per view, l; twice the number of clusters by default. More anchors explain more of the data,
        and more of its noise. It is limited to the number of features of the widest view and to the number of samples,
        because further anchors would stay zero.
    view_sizes : sequence of int, optional
        Number of columns of each view, if `fit` gets one array.
    max_iter : int, default=51
        Maximum number of iterations.
    tol : float, default=1e-7
        Largest allowed residual: the row length of X − ZA − E and the row sum of ``|Z − J|``. In single precision,
        where rounding errors may prevent this, the fit ends when the residual no longer falls.
    random_state : int, RandomState instance or None, default=None
        Seed of the k-means starts.
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
    embedding_ : ndarray of shape (n_samples, n_clusters)
        Leading left singular vectors of the representation, which k-means clusters.
    basis_ : basis
        The fitted transform.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the residuals fell below `tol`.
    history_ : list of Record
        Residuals, objective, penalty parameters and seconds of every iteration.
    representation_ : ndarray of shape (n_samples, n_latent, n_views)
        Z, only with ``keep="all"``; the views are sorted by their contents.

    References
    ----------
    J. Ji, S. Feng, "Anchors Crash Tensor: Efficient and Scalable Tensorial Multi-View Subspace Clustering", IEEE
    Transactions on Pattern Analysis and Machine Intelligence, 2025.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> model = tm.ESTMC(n_clusters=10, random_state=0).fit(views)
    >>> model.embedding_.shape, model.converged_
    ((200, 10), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AnchorRepresentationClusterer._parameter_constraints,
        "penalty": [str, HasMethods(["value", "prox"])],
    }

    n_clusters: int = 8
    basis: Any = "auto"
    alpha: float = 2.0
    penalty: Any = "etr"
    n_latent: int | None = None
    view_sizes: Sequence[int] | None = None
    max_iter: int = 51
    tol: float = 1e-7
    random_state: Any = None
    verbose: int = 0
    callback: Callable[..., Any] | None = None
    keep: str | None = None
    device: Any = None

    def _weights(self) -> Weights:
        return Weights(self.alpha, 0.0, make_penalty(self.penalty))
