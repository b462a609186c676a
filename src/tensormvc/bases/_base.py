"""What a basis is: a linear transform along one mode of a tensor, fitted once to the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..backend.arrays import Array, complex_dtype, contiguous, namespace, on_host, placed, real_dtype
from ..backend.checks import as_real_array, as_slices, check_out
from ..backend.linalg import matmul_into
from ..rows import Rows, in_memory


class Basis(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of the transforms; any object with the same four members may be used in its place.

    A tensor is sample-first, ``(n, d, m)``: samples, features, views. `forward` turns it into a stack of
    slices ``(K, p, q)``, `inverse` turns slices back into a tensor. Where the slices of a real tensor come
    in conjugate pairs only one of each pair is returned, and its weight in ``slice_weights_`` is 2.

    Attributes
    ----------
    slice_weights_ : ndarray of shape (K,)
        How many slices of the full spectrum each returned slice stands for.
    mode_length_ : int
        Length of the mode that is transformed, n₃ in the definition of the tensor rank.
    adapts_to_data : bool
        Whether the transform comes from the values of the samples, so that their order means nothing to it. A basis
        of your own that does says so with a class attribute; otherwise the methods hand it the order as given.
    """

    adapts_to_data = False
    slice_weights_: NDArray[np.float64]
    mode_length_: int

    @abstractmethod
    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Learn what the transform needs to know of the data."""

    @abstractmethod
    def forward(self, tensor: Array, *, out: Array | None = None) -> Array:
        """Transform a tensor ``(n, d, m)`` into slices; `out`, if given, receives them."""

    @abstractmethod
    def inverse(self, slices: Array, *, out: Array | None = None) -> Array:
        """Transform slices back into a tensor; `out`, if given, receives it."""

    def _check_mode(self, array: Array, length: int, axis: int, what: str) -> None:
        """Refuse an array whose transformed axis does not have the fitted length."""
        if array.ndim != 3:
            raise ValueError(f"{what} has shape {tuple(array.shape)}; it must have 3 dimensions")
        if array.shape[axis] != length:
            raise ValueError(
                f"{what} of shape {tuple(array.shape)} does not fit {type(self).__name__}, which was fitted "
                f"for {length} along axis {axis}"
            )


def written(compute: Callable[[Array | None], Array], out: Array | None, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return what `compute` computes, in `out` if there is one; `compute` gets it only if it lies row by row."""
    if out is None:
        return compute(None)
    if check_out(out, shape, dtype):
        return compute(out)
    out[...] = compute(None)
    return out


class SampleModeBasis(Basis):
    """A transform along the samples: checks here, the arithmetic in `_forward` and `_inverse`."""

    _complex_slices = False

    def forward(self, tensor: Array, *, out: Array | None = None) -> Array:
        """Transform a real tensor (n, d, m) into its slices (K, d, m)."""
        check_is_fitted(self, "mode_length_")
        tensor = as_real_array(tensor, "tensor", 3)
        self._check_mode(tensor, self.mode_length_, 0, "tensor")
        dtype = complex_dtype(tensor) if self._complex_slices else tensor.dtype
        shape = (len(self.slice_weights_), *tensor.shape[1:])
        return written(lambda room: self._forward(tensor, room), out, shape, dtype)

    def inverse(self, slices: Array, *, out: Array | None = None) -> Array:
        """Transform slices (K, d, m) back into a real tensor (n, d, m)."""
        check_is_fitted(self, "mode_length_")
        slices = as_slices(slices, complex_allowed=self._complex_slices)
        self._check_mode(slices, len(self.slice_weights_), 0, "slices")
        shape = (self.mode_length_, *slices.shape[1:])
        return written(lambda room: self._inverse(slices, room), out, shape, real_dtype(slices))

    def hold_vectors(self, rows: Rows) -> Array | None:
        """Add the columns of the transform, but for a factor, to rows as "vectors"; return the factor, if any."""
        local = in_memory(rows)
        identity = local.place(np.eye(len(self.slice_weights_)))
        local.hold(vectors=contiguous(self.inverse(identity[:, :, None])[:, :, 0]))
        return None

    @abstractmethod
    def _forward(self, tensor: Array, out: Array | None) -> Array: ...

    @abstractmethod
    def _inverse(self, slices: Array, out: Array | None) -> Array: ...


class ConvertedMatrix:
    """A float64 matrix, wherever it was computed, that multiplies arrays of any namespace, dtype and device.

    The copy in the type of the last array is kept, so that a loop converts once.
    """

    def __init__(self, matrix: Array) -> None:
        self._made = self._copy = matrix

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The matrix as NumPy's array."""
        return np.asarray(on_host(self._made))

    def like(self, array: Array) -> Array:
        """Return the matrix in the namespace, dtype and device of `array`."""
        xp = namespace(array)
        copy = self._copy
        if namespace(copy) is not xp or copy.dtype != array.dtype or device(copy) != device(array):
            self._copy = copy = xp.astype(placed(self._made, array), array.dtype, copy=False)
        return copy

    def __getstate__(self) -> dict[str, Any]:
        return {"_made": self.matrix, "_copy": self.matrix}


def apply_matrix(matrix: Array, tensor: Array, out: Array | None) -> Array:
    """Multiply a matrix into the first mode of a tensor: a reshape and one GEMM."""
    xp = namespace(tensor)
    if out is None:
        out = xp.empty((matrix.shape[0], *tensor.shape[1:]), dtype=tensor.dtype, device=device(tensor))
    columns = xp.reshape(tensor, (tensor.shape[0], -1))
    matmul_into(matrix, columns, xp.reshape(out, (matrix.shape[0], -1)))
    return out
