"""A map: the samples in the plane, close to those that they are linked with in a graph.

The map is a t-SNE of the graph (van der Maaten and Hinton, 2008). Points i and j with link weight p_ij attract each
other, all points repel each other, and the map minimises KL(p ‖ q) with q_ij = w_ij / Z, w_ij = 1 / (1 + |y_i − y_j|²),
Z = Σ w_ij. Its gradient is

    ∂KL/∂y_i = 4 Σ_j p_ij w_ij (y_i − y_j) + 2 ∇φ(y_i) / Z        with        φ(y) = Σ_j 1 / (1 + |y − y_j|²).

The potential φ is a convolution, computed by FFT on a grid. Everything is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from ..backend.threads import one_blas_thread

# Steps in which the attraction is multiplied by the exaggeration, which gathers the clusters, and steps after them.
_GATHERING_STEPS, _SPREADING_STEPS = 100, 200
_EXAGGERATION = 12.0
_FIRST_DEVIATION = 1e-4
# The potential of a point falls to a half at distance 1; with this spacing, forces are right to about 2 %.
_SPACING = 0.4
# Nodes at least along the longer axis: at first, all points are close to each other.
_LEAST_NODES = 32
# Nodes per sample at most; a larger map, which only samples without links make, has a larger spacing.
_MOST_NODES = 64
# Least Z / n. It is 5 to 15 on usual maps; without a limit, samples without links would push each other away forever.
_LEAST_POTENTIAL = 1.0
_PLACING_STEPS = 30


def principal_plane(parts: list[Any]) -> NDArray[np.float64]:
    """Return the first two principal components of the concatenated parts, to start a layout from.

    Sparse parts are not centred.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The scaled and weighted views, dense or CSR.

    Returns
    -------
    ndarray of shape (n, 2)
    """
    samples: Any = sp.csr_array(sp.hstack(parts)) if any(map(sp.issparse, parts)) else np.hstack(parts)
    if not sp.issparse(samples):
        samples = samples - samples.mean(axis=0)
    n_components = min(2, *samples.shape)
    with one_blas_thread():
        vectors, lengths, _ = randomized_svd(samples, n_components, random_state=0)
    return np.pad(vectors * lengths, ((0, 0), (0, 2 - n_components)))


def layout(graph: sp.csr_array, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Arrange samples in the plane so that linked samples are close to each other.

    Distances between clusters that share no links mean little, except for what they keep of the start. A step takes
    O(links + n log n) time.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
        Symmetric weights, not negative.
    start : ndarray of shape (n, 2)
        Where the samples are at first, up to scale; functions of the samples' values, such as `principal_plane`.

    Returns
    -------
    ndarray of shape (n, 2)
        Centred at the origin; neighbours are about 1 apart.
    """
    n = graph.shape[0]
    weights = graph.data / max(float(graph.data.sum()), np.finfo(np.float64).tiny)
    n_links = np.diff(graph.indptr)
    linked = np.flatnonzero(n_links)
    first_links = graph.indptr[linked]
    points = np.ascontiguousarray(_scaled(start).T)
    step, gain = np.zeros_like(points), np.ones_like(points)
    grid = None
    for i in range(_GATHERING_STEPS + _SPREADING_STEPS):
        exaggeration, momentum = (_EXAGGERATION, 0.5) if i < _GATHERING_STEPS else (1.0, 0.8)
        if grid is None or not grid.holds(points):
            grid = _Grid.around(points)
        potential, slope = grid.potential(points)
        # Z, which leaves out the potential of 1 that each point has at its own place.
        total = max(float(potential.sum()) - n, _LEAST_POTENTIAL * n)
        # A quarter of the gradient above.
        gradient = slope / (2 * total)
        apart = np.repeat(points, n_links, axis=1) - points.take(graph.indices, axis=1)
        apart *= weights / (1 + apart[0] ** 2 + apart[1] ** 2)
        gradient[:, linked] += exaggeration * np.add.reduceat(apart, first_links, axis=1)
        # Delta-bar-delta: steps grow in directions that stay the same, and shrink where they turn around.
        gain = np.where(gradient * step < 0, gain + 0.2, np.maximum(0.8 * gain, 0.01))
        step = momentum * step - n / exaggeration * gain * gradient
        points += step
        points -= points.mean(axis=1, keepdims=True)
    return np.ascontiguousarray(points.T)


def place(landmark_map: NDArray[np.float64], neighbours: sp.csr_array) -> NDArray[np.float64]:
    """Place new samples on a map, where the attractions of their nearest landmarks balance.

    A sample minimises Σ_i w_i log(1 + |y − y_i|²) over its landmarks i: it comes to lie among most of them, and not, as
    their mean would, in the empty space between two clusters. Each sample is placed by itself.

    Parameters
    ----------
    landmark_map : ndarray of shape (n_landmarks, 2)
        The map of the landmarks, from `layout`.
    neighbours : csr_array of shape (n_new, n_landmarks)
        Weights of the nearest landmarks of each new sample.

    Returns
    -------
    ndarray of shape (n_new, 2)
        NaN for a sample without landmarks.
    """
    summed = np.column_stack([landmark_map, np.ones(len(landmark_map))])
    n_landmarks = np.diff(neighbours.indptr)
    weights = neighbours.data.astype(np.float64)
    goals = landmark_map[neighbours.indices]
    points = np.empty((neighbours.shape[0], 2))
    for _ in range(_PLACING_STEPS):
        sums = sp.csr_array((weights, neighbours.indices, neighbours.indptr), shape=neighbours.shape) @ summed
        with np.errstate(invalid="ignore"):
            points = sums[:, :2] / sums[:, 2:]
        apart = np.repeat(points, n_landmarks, axis=0) - goals
        weights = neighbours.data / (1 + apart[:, 0] ** 2 + apart[:, 1] ** 2)
    return points


def _scaled(start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the start centred, with a small standard deviation."""
    centred = start - start.mean(axis=0)
    deviation = float(centred.std())
    return np.asarray(_FIRST_DEVIATION / (deviation or 1.0) * centred)


@dataclass(frozen=True)
class _Grid:
    """A grid that potentials are computed on: charges are spread to its nodes and potentials read off by cubic splines.

    Attributes
    ----------
    origin, end : ndarrays of shape (2, 1)
        Corners of the rectangle that points may be in.
    spacing : float
        Distance between nodes.
    shape : tuple of two int
        Number of nodes along each axis, twice those needed: the FFT is periodic, and charges must not meet their
        images.
    transfer : complex ndarray
        Fourier transform of the kernel, divided by those of the splines of both ends.
    """

    origin: NDArray[np.float64]
    end: NDArray[np.float64]
    spacing: float
    shape: tuple[int, ...]
    transfer: NDArray[Any]

    @staticmethod
    def around(points: NDArray[np.float64]) -> _Grid:
        """Return a grid with some room around the points (2, n)."""
        low, high = points.min(axis=1, keepdims=True), points.max(axis=1, keepdims=True)
        room = 1 + 0.1 * (high - low)
        origin, end = low - room, high + room
        width = float((end - origin).max())
        spacing = max(min(_SPACING, width / _LEAST_NODES), width / np.sqrt(_MOST_NODES * points.shape[1]))
        # A spline reaches over four nodes, one before the cell of its point and two behind it.
        needed = np.ceil((end - origin)[:, 0] / spacing).astype(int) + 4
        shape = tuple(scipy.fft.next_fast_len(2 * int(count), real=True) for count in needed)
        x, y = (spacing * np.minimum(np.arange(size), size - np.arange(size)) for size in shape)
        spectrum = scipy.fft.rfft2(1 / (1 + x[:, None] ** 2 + y**2))
        spline = np.outer(*((2 + np.cos(2 * np.pi * np.arange(size) / size)) / 3 for size in shape))
        return _Grid(origin, end, spacing, shape, spectrum / spline[:, : spectrum.shape[1]] ** 2)

    def holds(self, points: NDArray[np.float64]) -> bool:
        """Return whether all points (2, n) are on the grid."""
        return bool(np.all(points >= self.origin) and np.all(points <= self.end))

    def potential(self, points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return φ at the points (2, n), each of charge 1, and its gradient (2, n)."""
        position = (points - self.origin) / self.spacing
        cell = position.astype(np.intp)
        (x, y), (x_slope, y_slope) = _cubic_spline(position - cell)
        corner = cell[0] * self.shape[1] + cell[1]
        nodes = corner[:, None] + (self.shape[1] * np.arange(4)[:, None] + np.arange(4)).ravel()
        spread = (x[:, :, None] * y[:, None, :]).reshape(nodes.shape)
        charges = np.bincount(nodes.ravel(), spread.ravel(), self.shape[0] * self.shape[1])
        spectrum = scipy.fft.rfft2(charges.reshape(self.shape))
        values = scipy.fft.irfft2(spectrum * self.transfer, self.shape).ravel()[nodes]
        potential = np.einsum("ij,ij->i", values, spread)
        values = values.reshape(-1, 4, 4)
        slopes = (np.einsum("ijk,ij,ik->i", values, x_slope, y), np.einsum("ijk,ij,ik->i", values, x, y_slope))
        return potential, np.stack(slopes) / self.spacing


def _cubic_spline(t: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the four cubic B-splines at offsets t in a cell, and their slopes, with the splines on a last axis."""
    u = 1 - t
    values = np.stack([u**3, 4 - 6 * t**2 + 3 * t**3, 4 - 6 * u**2 + 3 * u**3, t**3], axis=-1) / 6
    slopes = np.stack([-(u**2), 3 * t**2 - 4 * t, 4 * u - 3 * u**2, t**2], axis=-1) / 2
    return values, slopes
