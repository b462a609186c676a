"""t-SVD-MVC: self-representation with the tensor nuclear norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..penalties import Nuclear
from ._admm import Schedule
from ._self_representation import SelfRepresentation, SelfRepresentationClusterer


class TSVDMVC(SelfRepresentationClusterer):
    """t-SVD-MVC: every view explains its samples by each other, and the representations are low-rank together.

    Xie and others, IJCV 2018; with the transform of your choice.

    Memory: about 7 arrays of n × n × views (56 n² bytes a view); time O(n³) a view and round. All is in double
    precision. On a device too, at most: Z, G and W take 24 n² bytes a view, what else grows with n² about 45 n² in all,
    what a round works on in blocks about 6 GiB at most. 10 000 samples in 6 views of a few hundred features take about
    25 GB there, with "fft-view" about 40.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    basis : str or basis, default="auto"
        Transform along the samples. "auto" is "gft-sum" up to 4 000 samples and "agft" beyond.
    lam : float, default=1.0
        Weight of the error. The larger, the more of the data must be explained by other samples; small values let
        whole samples count as outliers. Samples have unit length, so that it needs no scaling to the data. The default
        was found without classes (docs/defaults.md).
    view_sizes : sequence of int, optional
        How many columns of a single array belong to each view.
    max_iter : int, default=200
        Most rounds.
    tol : float, default=1e-7
        Residual at which to stop: what is left over of a sample in a view, at most, and the Frobenius norm of Z − G in
        a view. Neither depends on the coordinates that the loop works in.
    random_state : int, RandomState instance or None, default=None
        Seed of the k-means restarts.
    verbose : int, default=0
        1 prints a line a round.
    callback : function of a record, optional
        Called after every round; a true answer ends the fit.
    keep : "all" or None, default=None
        Whether to keep ``representation_`` and ``affinity_``, which can be gigabytes.
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
    representation_ : ndarray of shape (n_samples, n_samples, n_views)
        Only with ``keep="all"``; views in the order that their contents decide.
    affinity_ : ndarray of shape (n_samples, n_samples)
        Only with ``keep="all"``.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(120)
    >>> model = tm.TSVDMVC(n_clusters=10, random_state=0).fit(views)
    >>> model.labels_.shape, model.converged_
    ((120,), True)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        basis: Any = "auto",
        lam: float = 1.0,
        view_sizes: Sequence[int] | None = None,
        max_iter: int = 200,
        tol: float = 1e-7,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callable[..., Any] | None = None,
        keep: str | None = None,
        device: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.basis = basis
        self.lam = lam
        self.view_sizes = view_sizes
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.keep = keep
        self.device = device

    def _problem(self, parts: list[Any], basis: Any) -> tuple[SelfRepresentation, Schedule]:
        solver = SelfRepresentation(parts, basis, Nuclear(), self.lam, stacked=True)
        return solver, Schedule({"mu": 1e-4, "rho": 1e-4}, {"mu": 1e11, "rho": 1e13})
