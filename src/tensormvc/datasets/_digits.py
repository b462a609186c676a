"""Four views of the handwritten digits that come with scikit-learn."""

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits


def load_digits_views(
    n_samples: int | None = None, *, class_sorted: bool = False
) -> tuple[list[NDArray[np.float64]], NDArray[np.intp]]:
    """Return four views of the 1797 handwritten digits that come with scikit-learn, without a download.

    The views describe the same 8 × 8 images in different ways: the pixels (64 features); histograms of gradient
    directions over four quadrants (32); magnitudes of the two-dimensional Fourier transform, which are invariant
    to shifts (40); sums along rows, columns and diagonals (46).

    Parameters
    ----------
    n_samples : int, optional
        Number of images, from the first; all of them by default. The digits are mixed, so that about twenty images
        suffice to contain every class.
    class_sorted : bool, default=False
        Whether the images are sorted by digit, as most benchmark files are.

    Returns
    -------
    views : list of four arrays of shape (n_samples, n_features_v)
        The views, in float64.
    y : ndarray of shape (n_samples,)
        The digits.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views()
    >>> [view.shape for view in views]
    [(1797, 64), (1797, 32), (1797, 40), (1797, 46)]
    """
    digits = load_digits()
    total = len(digits.target)
    n_samples = total if n_samples is None else n_samples
    if not 1 <= n_samples <= total:
        raise ValueError(f"n_samples must be between 1 and {total}, got {n_samples!r}")
    images: NDArray[np.float64] = np.asarray(digits.images[:n_samples], dtype=np.float64)
    y: NDArray[np.intp] = np.asarray(digits.target[:n_samples], dtype=np.intp)
    if class_sorted:
        order = np.argsort(y, kind="stable")
        images, y = images[order], y[order]
    pixels, magnitudes = images.reshape(n_samples, -1).copy(), np.abs(np.fft.rfft2(images)).reshape(n_samples, -1)
    return [pixels, _gradient_histograms(images), magnitudes, _projections(images)], y


def _gradient_histograms(images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return histograms of eight gradient directions, weighted by the gradient's length, for each quadrant."""
    n_bins = 8
    dy, dx = np.gradient(images, axis=(1, 2))
    bins = np.floor((np.arctan2(dy, dx) / (2 * np.pi) + 0.5) * n_bins).astype(int) % n_bins
    length = np.hypot(dx, dy)
    weights = length[..., None] * (bins[..., None] == np.arange(n_bins))
    quadrants = weights.reshape(len(images), 2, 4, 2, 4, n_bins)
    return np.asarray(quadrants.sum(axis=(2, 4)).reshape(len(images), -1))


def _projections(images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums along the rows, the columns and both families of diagonals."""
    rows, columns = images.sum(axis=2), images.sum(axis=1)
    diagonals = [np.trace(side, k, axis1=1, axis2=2) for side in (images, images[:, :, ::-1]) for k in range(-7, 8)]
    return np.column_stack([rows, columns, *diagonals])
