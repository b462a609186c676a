"""The base classes of the transforms: linear maps along one mode of a tensor, fitted once to the data."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from pkgutil import resolve_name
from typing import Any, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from .._registry import BASIS_NAMES, TRANSFORMS
from ..backend.arrays import Array, complex_dtype, contiguous, namespace, on_host, placed, real_dtype
from ..backend.checks import as_real_array, as_slices, check_out
from ..backend.linalg import matmul_into
from ..rows import Rows, in_memory
from ..views import Views, view_sizes_of

# Eigenvalues (of matrices of norm about 1) nearer than this count as repeated: the error of an eigenvector is rounding
# divided by the gap to the next eigenvalue.
REPEATED = 1e-6
# The sign of a simple eigenvector is decided by the first of these probes that is not nearly orthogonal to it.
N_SIGN_PROBES = 8
_NOT_ORTHOGONAL = 1e-3
_PROTOCOL = ("fit", "forward", "inverse")


class Basis(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of the transforms; any object with the same four members may be used in its place.

    A tensor is sample-first, ``(n, d, m)``: samples, features, views. `forward` turns it into a stack of
    slices ``(K, p, q)``, `inverse` turns slices back into a tensor. If the slices of a real tensor come
    in conjugate pairs, only one of each pair is returned, and its weight in ``slice_weights_`` is 2.

    Attributes
    ----------
    slice_weights_ : ndarray of shape (K,)
        Number of slices of the full spectrum that each returned slice represents.
    mode_length_ : int
        Length of the mode that is transformed, n₃ in the definition of the tensor rank.
    adapts_to_data : bool
        Whether the transform is computed from the values of the samples, and so does not depend on their order. Set
        this class attribute in your own basis if that is the case; otherwise the methods pass it samples in the order
        given.
    """

    adapts_to_data = False
    slice_weights_: NDArray[np.float64]
    mode_length_: int

    @abstractmethod
    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Fit the transform to the data."""

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
        """The matrix as a NumPy array."""
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


class DataBasis(SampleModeBasis):
    """A transform along the samples that is computed from them, in their canonical order.

    Fitted to `Views`, it takes tensors whose samples are in working order, as the methods hold them. Fitted to anything
    else, it takes tensors in the order of the samples as given and reorders them itself.
    """

    adapts_to_data = True
    _order: NDArray[np.intp] | None = None

    def forward(self, tensor: Array, *, out: Array | None = None) -> Array:
        """Transform a real tensor (n, d, m) into its slices (K, d, m)."""
        if self._order is not None:
            tensor = as_real_array(tensor, "tensor", 3)
            self._check_mode(tensor, self.mode_length_, 0, "tensor")
            tensor = tensor[self._order]
        return super().forward(tensor, out=out)

    def inverse(self, slices: Array, *, out: Array | None = None) -> Array:
        """Transform slices (K, d, m) back into a real tensor (n, d, m)."""
        if self._order is None:
            return super().inverse(slices, out=out)
        tensor = super().inverse(slices)
        if out is None:
            return tensor[np.argsort(self._order)]
        check_out(out, tuple(tensor.shape), tensor.dtype)
        out[self._order] = tensor
        return out


class FixedBasis(Basis):
    """A transform that depends on the length of its mode alone, so that a tensor is enough to fit it.

    Along the samples, derive from `SampleModeBasis` as well: ``class DCT(FixedBasis, SampleModeBasis)``.
    """

    _along_views = False
    _complex_slices = False

    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Read the number of samples, or of views; the values are not used.

        Parameters
        ----------
        views : list of arrays (n_samples, n_features_v), or one tensor (n_samples, d, m)
            Only the sizes are used.
        n_clusters, random_state, sample_graph : ignored
            For consistency with the other bases.

        Returns
        -------
        self
        """
        if isinstance(views, Views):
            sizes = views.n_samples, views.n_views
        elif len(getattr(views, "shape", ())) == 3 and 0 not in views.shape:
            sizes = views.shape[0], views.shape[2]
        else:
            sizes = view_sizes_of(views)
        length = self.mode_length_ = sizes[self._along_views]
        self.slice_weights_ = np.ones(length)
        if self._complex_slices:  # of the conjugate pairs X̄_k, X̄_{n−k} only the first is kept
            self.slice_weights_ = np.full(length // 2 + 1, 2.0)
            self.slice_weights_[[0, -1] if length % 2 == 0 else [0]] = 1.0
        return self


def basis_class(basis: Any) -> type:
    """Return the class of a basis that is given by its name or as an object."""
    if isinstance(basis, str):
        if basis not in BASIS_NAMES:
            raise ValueError(f"unknown basis {basis!r}; the names are {', '.join(map(repr, BASIS_NAMES))}")
        named: type = resolve_name(TRANSFORMS.get(basis, TRANSFORMS["gft"]))
        return named
    missing = [member for member in _PROTOCOL if not callable(getattr(basis, member, None))]
    if isinstance(basis, type) or missing:
        raise TypeError(
            f"{basis!r} is not a basis: expected a name or an instance with {', '.join(_PROTOCOL)} and slice_weights_"
        )
    return type(basis)


def make_basis(basis: Any, *, n_samples: int | None = None) -> Any:
    """Return the basis with a given name; a basis object is returned as it is.

    Parameters
    ----------
    basis : str or basis
        One of the names in the registry, or an object with `fit`, `forward`, `inverse` and `slice_weights_`.
    n_samples : int, optional
        Number of samples, to which the number of neighbours of a named graph is limited.

    Examples
    --------
    >>> make_basis("dct"), make_basis("gft-sum")
    (DCT(), GFT(graph='sum'))
    """
    kind = basis_class(basis)
    if not isinstance(basis, str):
        return basis
    if not basis.startswith("gft"):
        return kind()
    graph_basis = kind(graph=basis.removeprefix("gft-")) if "-" in basis else kind()
    if n_samples is not None:
        graph_basis.limit_neighbors(n_samples)
    return graph_basis


def fitted_basis(basis: Any, tensor: Any) -> Any:
    """Return a basis that can transform the tensor.

    A fitted basis is returned as it is. A name, or a fixed basis that is not fitted, is fitted (as a copy) to the size
    of the tensor, with seed 0 if it is random and has none. A basis that depends on the data must have been fitted to
    the views before.
    """
    basis = make_basis(basis)
    if hasattr(basis, "slice_weights_"):
        return basis
    if not isinstance(basis, FixedBasis):
        raise ValueError(f"{basis!r} depends on the data: fit it to the views first")
    return clone(basis).fit(tensor, random_state=0)


# Signs of eigenvectors, and rotations where eigenvalues are repeated. Which ones an eigensolver returns is an accident
# of rounding. Here the first vector of an eigenspace is the projection of the first probe onto it, the second that of
# the second probe onto the complement of the first vector, and so on: the probes (`Views.probes`) are smooth functions
# of the samples, so that the result depends on the eigenspace and the data alone.


def eigenvalue_groups(values: NDArray[np.float64], tol: float = REPEATED) -> list[slice]:
    """Return the runs of sorted eigenvalues whose neighbours differ by less than `tol`."""
    edges = np.flatnonzero(np.abs(np.diff(values)) >= tol) + 1
    return [slice(int(a), int(b)) for a, b in pairwise([0, *edges, len(values)]) if a < b]


def end_of_group(values: NDArray[np.float64], k: int) -> int:
    """Return the smallest number of eigenvalues, at least k, that does not split a repeated one."""
    return int(next(group.stop for group in eigenvalue_groups(values) if group.stop >= k))


def settle(values: NDArray[np.float64], vectors: Array, project: Callable[[int], Array]) -> None:
    """Determine the signs and rotations of eigenvectors, in place.

    Parameters
    ----------
    values : ndarray of shape (r,)
        Eigenvalues, sorted.
    vectors : array of shape (p, r), on any device
        The eigenvectors, or coefficients that represent them.
    project : function of an int
        Returns the inner products of the eigenvectors with the first `count` probes, (r, count).
    """
    if len(values) == 0:
        return
    repeated = [group for group in eigenvalue_groups(values) if group.stop - group.start > 1]
    inner = on_host(project(max([N_SIGN_PROBES, *(group.stop - group.start for group in repeated)])))
    candidates = inner[:, :N_SIGN_PROBES]
    sizes = np.abs(candidates)
    deciding = np.argmax(sizes >= _NOT_ORTHOGONAL * np.max(sizes, axis=1, keepdims=True), axis=1)
    signs = np.where(candidates[np.arange(len(values)), deciding] < 0, -1.0, 1.0)
    for group in repeated:
        vectors[:, group] = vectors[:, group] @ placed(successive_projections(inner[group]), vectors)
        signs[group] = 1
    vectors *= placed(signs, vectors)


def successive_projections(inner: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rotation of an eigenspace after which probe i is orthogonal to all vectors beyond the i-th.

    Parameters
    ----------
    inner : ndarray of shape (r, at least r)
        Inner products of the r vectors with the probes.
    """
    rotation, triangle = np.linalg.qr(inner[:, : len(inner)])
    return np.asarray(rotation * np.where(np.diag(triangle) < 0, -1.0, 1.0))
