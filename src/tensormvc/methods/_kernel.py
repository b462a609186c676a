"""Gaussian similarities of samples to anchors, and the factor of the ridge projection onto them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device

from ..backend.arrays import Array, contiguous, in_double, is_single, namespace
from ..backend.linalg import cholesky, inner, solve_lower, sum_of_squares
from ..bases._anchor import view_anchors
from ..graphs._distances import TIE_ABSOLUTE, DistanceBlocks, row_squares
from ..rows import RowArrays, Rows, row_work
from ..views import Views


@dataclass
class KernelRows(RowArrays):
    """The views."""

    views: list[Array]


@dataclass(frozen=True)
class Kernel:
    """Gaussian similarities of the samples of one view to its anchors, centred over the samples.

    Attributes
    ----------
    view : int
        Which view.
    anchors : array of shape (a, d)
        The anchors, in float64.
    scale : float
        Largest squared length of all samples and anchors, relative to which tiny distances count as zero.
    exponent : float
        Factor of the squared distances in the exponent: with twice the mean distance of a sample to its nearest anchor
        as the width σ of the kernel, −1/(2σ²).
    mean : array of shape (a,)
        Means of the similarities over the samples.
    """

    view: int
    anchors: Array
    scale: float
    exponent: float = 0.0
    mean: Any = 0.0

    def distances(self, views: list[Array]) -> Array:
        """Return the squared distances of some samples to the anchors."""
        part = views[self.view]
        block = DistanceBlocks([part], [self.anchors], self.scale).block(0, part.shape[0])
        # Set the distance of an anchor to itself to 0: the root of its rounding error would affect the kernel width.
        block[block <= TIE_ABSOLUTE * self.scale] = 0
        return block

    def features(self, views: list[Array]) -> Array:
        """Return the similarities of some samples, in the type of their view."""
        xp = namespace(self.anchors)
        dtype = xp.float32 if is_single(views[self.view]) else xp.float64
        features = xp.astype(self.distances(views), dtype, copy=False)
        with np.errstate(over="ignore", under="ignore"):
            features *= self.exponent
            features = xp.exp(features, out=features)
        features -= namespace(features).asarray(self.mean, dtype=dtype)
        return features


def fit_kernels(views: Views, depth: int) -> list[Kernel]:
    """Return the kernels of all views, with 2^depth anchors each."""
    rows, kernels = views.rows, []
    longest = rows.max(_longest)
    for v in range(views.n_views):
        anchors = in_double(view_anchors(views, [v], depth)[0])
        xp = namespace(anchors)
        scale = max(float(longest[v]), float(xp.max(sum_of_squares(anchors))), np.finfo(np.float64).tiny)
        kernels.append(Kernel(v, anchors, scale))
    nearest = rows.wide(2**depth).sum(_nearest, kernels)
    # In single precision, which any of the views may have.
    smallest = np.finfo(np.float32).smallest_normal
    for v, total in enumerate(nearest):
        sigma = 2 * float(total) / views.n_samples
        # Every sample is an anchor: the limit of the kernel is 1 at distance 0 and 0 elsewhere.
        kernels[v] = replace(kernels[v], exponent=-0.5 / sigma**2 if sigma > 0 else -1 / float(smallest))
    sums = rows.wide(2**depth).sum(_feature_sums, kernels)
    return [replace(kernel, mean=total / views.n_samples) for kernel, total in zip(kernels, sums, strict=True)]


@row_work(reads="views")
def _longest(rows: KernelRows) -> list[float]:
    return [float(row_squares(view).max()) for view in rows.views]


@row_work(reads="views")
def _nearest(rows: KernelRows, kernels: list[Kernel]) -> list[float]:
    xp = namespace(kernels[0].anchors)
    return [float(xp.sum(xp.sqrt(xp.min(kernel.distances(rows.views), axis=1)))) for kernel in kernels]


@row_work(reads="views")
def _feature_sums(rows: KernelRows, kernels: list[Kernel]) -> list[Array]:
    xp = namespace(kernels[0].anchors)
    return [xp.sum(kernel.features(rows.views), axis=0, dtype=xp.float64) for kernel in kernels]


def ridge_roots(rows: Rows, kernels: list[Kernel], lam: float) -> list[Array]:
    """Return `ridge_root` of the features of each view."""
    return [ridge_root(gram, lam) for gram in rows.sum(_grams, kernels)]


@row_work(reads="views", products=True)
def _grams(rows: KernelRows, kernels: list[Kernel]) -> list[Array]:
    features = [in_double(kernel.features(rows.views)) for kernel in kernels]
    return [inner(part, part) for part in features]


def ridge_root(gram: Array, lam: float) -> Array:
    """Return the upper triangular R with R Rᵀ = (G + λI)^{-1}, of the Gram matrix of some features."""
    xp = namespace(gram)
    identity = xp.eye(gram.shape[0], dtype=gram.dtype, device=device(gram))
    lower = cholesky(gram + lam * identity)
    if lower is None:
        raise ValueError(f"lam={lam} is too small for the kernel features, which are dependent: raise it")
    return contiguous(solve_lower(lower, identity).T)


def ridge_factor(features: Array, root: Array) -> Array:
    """Return rows of A = P R, with which A Aᵀ = P (PᵀP + λI)^{-1} Pᵀ, in double precision.

    A product takes a third of the time of solving with the triangle for every sample, and its error, rounding times
    the root of the condition of PᵀP + λI, is far below that of the projection. No singular value of A exceeds 1, so
    that products with it are accurate in single precision, where a product with P would be magnified by the inverse.
    """
    return in_double(features) @ root
