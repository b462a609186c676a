"""What t-SVD-MVC and TLSpNM share as estimators: spectral clustering of n × n representations."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..backend import check_memory, on_host
from ..rows import SampleRandom, kmeans
from ..views import Views
from ._admm import Schedule
from ._base import POSITIVE, TensorClusterer
from ._self_representation import SelfRepresentation
from ._spectral import spectral_embedding

_RESTARTS = 20


class SelfRepresentationClusterer(TensorClusterer):
    """What t-SVD-MVC and TLSpNM share: n × n representations, spectral clustering of their magnitudes."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TensorClusterer._parameter_constraints,
        "lam": POSITIVE,
        "device": "no_validation",
    }

    def _as_views(self, views: Any) -> Views:
        return self._working_views(views, device=self.device)

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> NDArray[np.intp]:
        n, m = views.n_samples, views.n_views
        check_memory(
            8 * n * n * (7 * m + 5),
            f"{type(self).__name__} on {n} samples in {m} views",
            'its representations are n × n; use ESTMC(basis="agft"), whose memory grows with n',
            views.arrays[0],
        )
        basis = self._fit_basis(views, seed, sample_graph)
        solver, schedule = self._problem(list(views.arrays), basis)
        self._run(solver.step, schedule)
        affinity = solver.affinity()
        if self.keep == "all":
            self.representation_ = views.to_given_order(on_host(solver.representation))
            self.representation_ = self.representation_[:, np.argsort(views.order)]
            self.affinity_ = views.to_given_order(views.to_given_order(on_host(affinity)).T).T
        del solver
        embedding = spectral_embedding(affinity, self.n_clusters)
        self.embedding_ = views.to_given_order(on_host(embedding))
        return kmeans(embedding, self.n_clusters, n_init=_RESTARTS, random=SampleRandom(views, seed))[0]

    @abstractmethod
    def _problem(self, parts: list[Any], basis: Any) -> tuple[SelfRepresentation, Schedule]:
        """Return the solver and the penalty parameters."""
