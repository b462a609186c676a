"""Placement of samples on a PyTorch device: those with all views and values there, the others on the host."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import Array, is_sparse, namespace, on_device, on_host
from ..backend.linalg import sum_of_squares
from ..backend.threads import device_lock
from ..graphs._distances import tie_margin
from ..graphs._fuzzy import nearest_on_device
from ._evidence import shares_of_views
from ._placement import Placement, n_votes
from ._samples import Samples
from ._scaling import Scaling

# Samples that are placed at a time, and never fewer: how a device rounds depends on the shapes of the arrays.
_BLOCK = 8192
# Squared distances beyond this are not told apart in single precision.
_FAR = 1e36


def placement_on(placement: Placement, device: Any) -> Placement:
    """Return the placement on a device, where its landmarks are dense."""
    return DevicePlacement(**{field.name: getattr(placement, field.name) for field in fields(placement)}, device=device)


@dataclass(frozen=True)
class _Search:
    """Landmarks that samples are compared with on a device, in one view or in all views together.

    Attributes
    ----------
    roots : dict of int to float
        The views, and the roots of their weights, or 1 for a single view.
    landmarks : tensor of shape (n, q)
        The landmarks that have these views, scaled and weighted.
    numbers : tensor of int of shape (n,)
        Which of all landmarks they are.
    reach : tensor of shape (n,)
        Distance from each of them to the last of its nearest landmarks.
    scale : float
        Squared length of the longest one.
    count : int
        Number of landmarks that vote.
    share : float
        How much all links of a sample from this search count.
    """

    roots: dict[int, float]
    landmarks: Array
    numbers: Array
    reach: Array
    scale: float
    count: int
    share: float

    def votes(self, parts: list[Array]) -> tuple[Array, Array, Array, Array]:
        """Return the nearest landmarks of samples and their votes, as `find_neighbours` and the host count them.

        Returns
        -------
        nearest, votes : tensors of shape (n, width)
            Positions among the landmarks, and how much each counts; 0 if it is no neighbour, else rows sum to 1.
        reach : tensor of shape (n,)
            Distance to the last neighbour.
        decided : tensor of bool of shape (n,)
            Whether these are all neighbours; not, if ties go on.
        """
        samples = namespace(*parts).hstack([parts[v] * root for v, root in self.roots.items()])
        count = min(self.count, len(self.landmarks))
        width = min(2 * count + 2, len(self.landmarks))
        squares, nearest = nearest_on_device(samples, self.landmarks, width)
        squares, order = squares.sort(dim=1, stable=True)
        nearest = nearest.gather(1, order)
        kth = squares[:, count - 1 : count]
        margin = tie_margin(kth, self.scale)
        tied, nearer = squares <= kth + margin, squares < kth - margin
        with_ties = (tied.sum(dim=1) <= 2 * count) | (nearer.sum(dim=1) == 0)
        kept = tied.where(with_ties[:, None], nearer)
        n_kept = kept.sum(dim=1)
        distances = squares.sqrt() * kept
        reach = distances.amax(dim=1)
        scales = reach[:, None] + self.reach[nearest]
        relative = distances / scales.where(scales > 0, 1.0)
        beyond = (relative - relative.where(kept, float("inf")).amin(dim=1, keepdim=True)) * kept
        mean = (beyond.sum(dim=1) / n_kept)[:, None]
        votes = (-beyond / mean.where(mean > 0, 1.0)).exp() * kept
        decided = ((n_kept <= 2 * count) | (width == len(self.landmarks))) & (kth[:, 0] < _FAR)
        return nearest, votes / votes.sum(dim=1, keepdim=True), reach, decided


@dataclass(frozen=True)
class DevicePlacement(Placement):
    """The landmarks on a device.

    Attributes
    ----------
    device : torch.device
        The device.
    """

    device: Any

    @staticmethod
    def _blocks(n_rows: int) -> list[slice]:
        return [slice(start, start + _BLOCK) for start in range(0, n_rows, _BLOCK)]

    def _placed(self, samples: Samples) -> tuple[sp.csr_array, NDArray[np.float64]]:
        """Place samples that are no landmarks; those with gaps, or with too many ties, on the host."""
        n, n_rows = len(samples), max(len(samples), _BLOCK)
        with device_lock:
            links, scores, decided = self._placed_there([self._filled(array, n_rows) for array in samples.arrays])
            row, column = links[:n].nonzero(as_tuple=True)
            entries = links[row, column], row.int(), column.int()
            del links
        values, row, column = map(on_host, entries)
        all_scores = np.array(on_host(scores)[:n])
        here = ~on_host(decided)[:n] | samples.missing.any(axis=1)
        if here.any():
            values, row, column = (part[~here[row]] for part in (values, row, column))
            others, all_scores[here] = super()._placed(samples[here])
            rest = others.tocoo()
            values = np.concatenate([values, rest.data])
            row = np.concatenate([row, np.flatnonzero(here)[rest.coords[0]]])
            column = np.concatenate([column, rest.coords[1]])
        return sp.csr_array((values, (row, column)), shape=(n, len(self.missing))), all_scores

    def _filled(self, array: Any, n_rows: int) -> Array:
        """Return an array on the device, with rows of zeros added."""
        dense = on_device(array.toarray() if is_sparse(array) else array, self.device)
        filled = dense.new_zeros((n_rows, dense.shape[1]))
        filled[: len(dense)] = dense
        return filled

    def _placed_there(self, arrays: list[Array]) -> tuple[Array, Array, Array]:
        """Return the links and outlier scores of samples, and which of them have no gaps and all of their links."""
        parts = [scaling.apply(array) for scaling, array in zip(self._scalings, arrays, strict=True)]
        links = parts[0].new_zeros((len(parts[0]), len(self.missing)))
        scores, decided = links.new_zeros(len(links)), ~sum(part.sum(dim=1) for part in parts).isnan()
        for search in self._searches:
            nearest, votes, reach, some = search.votes(parts)
            # No landmark is in a list twice, so that the order of these additions does not matter.
            links.scatter_add_(1, search.numbers[nearest], search.share * votes)
            decided &= some
            if len(search.roots) == 1:
                mean = (votes * search.reach[nearest]).sum(dim=1)
                ratio = (reach / mean).where(mean > 0, 1.0 + (reach > 0))
                scores += self._shares[next(iter(search.roots))] * ratio
        return links, scores, decided

    @cached_property
    def _shares(self) -> list[float]:
        """How much each view counts for a sample that has all."""
        shares: list[float] = shares_of_views(self.weights, np.zeros((1, len(self.parts)), dtype=bool))[0].tolist()
        return shares

    @cached_property
    def _scalings(self) -> list[Scaling]:
        return [scaling.on(self.device) for scaling in self.scalings]

    @cached_property
    def _searches(self) -> list[_Search]:
        """A search in every view, and one in all views together if there are several that some landmark has."""
        m = len(self.parts)
        together = m > 1 and not self.missing.any(axis=1).all()
        everywhere = [[v] for v in range(m)] + [list(range(m))] * together
        return [
            self._search(views, 0.5 if len(views) > 1 else self._shares[views[0]] / (1 + together))
            for views in everywhere
        ]

    def _search(self, views: list[int], share: float) -> _Search:
        roots = np.sqrt(self.weights[views]).tolist() if len(views) > 1 else [1.0]
        reach = self.reach_in(np.array(views)) if len(views) > 1 else self.reach[:, views[0]]
        numbers = np.flatnonzero(~self.missing[:, views].any(axis=1))
        landmarks = np.hstack([self.parts[v][numbers] * root for v, root in zip(views, roots, strict=True)])
        return _Search(
            roots=dict(zip(views, roots, strict=True)),
            landmarks=on_device(landmarks, self.device),
            numbers=on_device(numbers, self.device),
            reach=on_device(reach[numbers], self.device),
            scale=max(float(sum_of_squares(landmarks).max()), np.finfo(np.float64).tiny),
            count=n_votes(*self.shares.shape),
            share=share,
        )
