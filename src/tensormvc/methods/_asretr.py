"""ASR-ETR: anchors, and a tight surrogate of the tensor rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..penalties import ETR
from ._anchor_representation import AnchorRepresentationClusterer, Weights
from ._base import NOT_NEGATIVE, POSITIVE


class ASRETR(AnchorRepresentationClusterer):
    """ASR-ETR: orthonormal anchors represent every view, and the representations have a low enhanced tensor rank.

    Ji and others, ICCV 2023; with the transform of your choice. The published anchor graph carries no information,
    because orthonormal anchors are all equally far apart; in exact arithmetic its regulariser is the ridge that it is
    here.

    Memory beside the views as given: 16 bytes a sample and feature, 24 a sample, latent dimension and view (half of
    both in single precision), and the basis, about 450 a sample with "agft". Finding the anchors holds another half of
    the samples for a while. Time: O(n) a round with "agft". Rows are worked on in blocks, by all threads.

    Views on disk (`numpy.memmap`, and what `tensormvc.datasets.load_views` leaves there) stay there with "agft": what
    is made of them, 16 bytes a sample and feature (8 in single precision), is in temporary files, in the folder that
    ``TMPDIR`` names. In memory are then 24 bytes a sample, latent dimension and view (12), about 700 a sample for the
    basis and k-means, and a few blocks of rows.

    Views of Dask are worked on where they are, on the workers of a cluster, with "agft" (docs/distributed.md); what is
    fitted and has a row a sample is then an array of Dask, and the labels are the same.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    basis : str or basis, default="auto"
        Transform along the samples. "auto" is "gft-sum" up to 4 000 samples and "agft" beyond.
    alpha : float, default=2.0
        Weight of the error. The larger, the more of each sample the anchors must explain, and the higher the rank;
        too small, and the rank falls below the number of clusters. Samples have unit length, so that it needs no
        scaling to the data. The default was found without classes (docs/defaults.md).
    gamma : float, default=0.0
        Weight of the ridge on the representation: all that the published regulariser is on orthonormal anchors. The
        larger, the smaller the representation becomes. Off by default, since it knows nothing of the data.
    delta : float, default=0.01
        Sharpness of the rank surrogate. The smaller, the nearer to the rank; the default is the published one.
    n_latent : int, optional
        Anchors of each view, l; twice the number of clusters by default. More anchors explain more of the data,
        and more of its noise. Beyond the features of the widest view, or the samples, they would stay zero and are left
        out.
    view_sizes : sequence of int, optional
        How many columns of a single array belong to each view.
    max_iter : int, default=51
        Most rounds.
    tol : float, default=1e-7
        Residual at which to stop: the largest row length of X − ZA − E and row sum of Z − J. In single precision, where
        rounding forbids it, the fit ends when the residual no longer falls.
    random_state : int, RandomState instance or None, default=None
        Seed of the k-means restarts.
    verbose : int, default=0
        1 prints a line a round.
    callback : function of a record, optional
        Called after every round; a true answer ends the fit.
    keep : "all" or None, default=None
        Whether to keep ``representation_``, which can be gigabytes.
    device : str or torch.device, optional
        Where to compute, with PyTorch: "cuda", "cuda:1", "cpu". By default where the views are: tensors of PyTorch on
        their device, everything else with NumPy. What is fitted comes back as NumPy's arrays.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Clusters, numbered by size.
    embedding_ : ndarray of shape (n_samples, n_clusters)
        What k-means saw.
    basis_ : basis
        The fitted transform.
    n_iter_ : int
        Rounds.
    converged_ : bool
        Whether the residuals fell below `tol`.
    history_ : list of Record
        One a round.
    representation_ : ndarray of shape (n_samples, n_latent, n_views)
        Only with ``keep="all"``; views in the order that their contents decide.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> model = tm.ASRETR(n_clusters=10, random_state=0).fit(views)
    >>> model.embedding_.shape, model.converged_
    ((200, 10), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AnchorRepresentationClusterer._parameter_constraints,
        "gamma": NOT_NEGATIVE,
        "delta": POSITIVE,
    }

    def __init__(
        self,
        n_clusters: int = 8,
        basis: Any = "auto",
        alpha: float = 2.0,
        gamma: float = 0.0,
        delta: float = 0.01,
        n_latent: int | None = None,
        view_sizes: Sequence[int] | None = None,
        max_iter: int = 51,
        tol: float = 1e-7,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[..., Any] | None = None,
        keep: str | None = None,
        device: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.basis = basis
        self.alpha = alpha
        self.gamma = gamma
        self.delta = delta
        self.n_latent = n_latent
        self.view_sizes = view_sizes
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.keep = keep
        self.device = device

    def _weights(self) -> Weights:
        return Weights(self.alpha, 2.0 * self.gamma, ETR(float(self.delta)))
