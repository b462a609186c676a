"""What ASR-ETR and ESTMC share as estimators."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..backend import check_memory, is_on_disk, on_host
from ..rows import SampleRandom, kmeans_of_rows
from ..views import Views
from ._admm import Schedule
from ._anchor_representation import AnchorRepresentation, narrowed, principal_anchors
from ._base import COUNT, POSITIVE, TensorClusterer

_RESTARTS = 10
# Anchors for each cluster, of the published grid {2, …, 8}.
_LATENT_PER_CLUSTER = 2
# Beyond this, rounding in float32 times the penalty parameter would drown the multipliers.
_SINGLE_CAP = 1e4


class AnchorRepresentationClusterer(TensorClusterer):
    """n × l representations by anchors, k-means on their leading singular vectors."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TensorClusterer._parameter_constraints,
        "alpha": POSITIVE,
        "n_latent": [*COUNT, None],
        "device": "no_validation",
    }

    def _as_views(self, views: Any) -> Views:
        return self._working_views(views, device=self.device, by_blocks=True, on_cluster=True)

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> NDArray[np.intp] | None:
        n, m = views.n_samples, views.n_views
        # More would stay zero.
        most = max(min(n, width) for width in views.widths)
        n_latent = min(self.n_latent or _LATENT_PER_CLUSTER * self.n_clusters, most)
        rows = views.rows
        if not rows.distributed:
            kept = sum(min(array.shape) for array in views.arrays if not is_on_disk(array))
            # Z, J, W and the slices; the residuals; the Gram matrix of the embedding.
            check_memory(
                32 * n * n_latent * m + 8 * n * kept + 16 * (n_latent * m) ** 2,
                f"{type(self).__name__} with n_latent={n_latent} on {n} samples in {m} views",
                "take a smaller n_latent; twice the number of clusters is the default",
                views.arrays[0],
            )
        basis = self._fit_basis(views, seed, sample_graph)
        penalty, ridge = self._penalty_and_ridge()
        if rows.distributed:
            if max(views.widths) > n:
                raise ValueError(f"{n} samples of {max(views.widths)} features are not for a cluster: call .compute()")
            rows.alias("x", "views")
            widths = views.widths
        else:
            rows.hold(x=[narrowed(array) for array in views.arrays])
            widths = [part.shape[1] for part in rows["x"]]
        single = views.single_precision
        anchors = [principal_anchors(views, v, n_latent, width) for v, width in enumerate(widths)]
        solver = AnchorRepresentation(
            rows, basis, penalty, alpha=self.alpha, ridge=ridge, anchors=anchors, single_precision=single
        )
        caps = {"mu": _SINGLE_CAP, "rho": _SINGLE_CAP} if single else {"mu": 1e11, "rho": 1e13}
        self._run(solver.step, Schedule({"mu": 1e-4, "rho": 1e-4}, caps), single_precision=single)
        if self.keep == "all":
            self.representation_ = views.given("z").transpose(0, 2, 1)
        solver.embed(self.n_clusters)
        solver.close()
        rows.drop("x")
        self.embedding_ = views.given("embedding")
        random = SampleRandom(views, seed)
        rows.alias("points", "embedding")
        kmeans_of_rows(rows, self.n_clusters, n_init=_RESTARTS, random=random)
        return None if rows.distributed else np.asarray(on_host(rows["labels"]))

    @abstractmethod
    def _penalty_and_ridge(self) -> tuple[Any, float]:
        """Return ψ and the weight of ‖Z‖²/2."""
