"""Tensor algebra under a basis: products, transpose, identity, GT-SVD, rank and norms.

Tensors have the samples first: frontal slice k of the literature is ``tensor[k]``, and the first mode is transformed.
(Under `ViewFFT`, which transforms the last mode, it is ``tensor[:, :, k]``.) Two tensors ``(n, p, q)`` and
``(n, q, r)`` are multiplied as matrices of tubes. Every function takes a basis as
`tensormvc.shrinkage.low_rank_shrink` does: a name or a fixed basis is fitted to the size of the tensor, any other basis
must be fitted. In sums over the spectrum, each slice counts with its weight.
"""

import math
from typing import Any

import numpy as np
from array_api_compat import device

from .backend.arrays import Array, namespace, real_dtype
from .backend.checks import as_real_array, check_finite, plain_array
from .bases import fitted_basis
from .penalties import make_penalty

__all__ = ["facewise_product", "mode3_product", "t_identity", "t_product", "t_transpose", "transform"]
__all__ += ["gt_svd", "inverse_transform", "is_f_diagonal", "is_orthogonal"]
__all__ += ["singular_values", "surrogate_norm", "tensor_rank"]


def _as_tensor(tensor: Any, name: str = "tensor") -> Array:
    tensor = as_real_array(tensor, name, 3)
    check_finite(tensor, name)
    return tensor


def _slices(tensor: Any, basis: Any) -> tuple[Array, Any]:
    """Return the slices of a tensor under a basis, and the basis fitted to the size of the tensor."""
    tensor = _as_tensor(tensor)
    basis = fitted_basis(basis, tensor)
    return basis.forward(tensor), basis


def facewise_product(a: Array, b: Array) -> Array:
    """Multiply two stacks of matrices slice by slice.

    Parameters
    ----------
    a : array of shape (K, p, q)
        Slices, real or complex.
    b : array of shape (K, q, r)
        Slices, real or complex.

    Returns
    -------
    array of shape (K, p, r)

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.algebra import facewise_product
    >>> facewise_product(np.ones((2, 1, 3)), np.ones((2, 3, 1))).ravel()
    array([3., 3.])
    """
    a, b = plain_array(a, "the left slices"), plain_array(b, "the right slices")
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise ValueError(
            f"cannot multiply slices of shapes {tuple(a.shape)} and {tuple(b.shape)}: expected (K, p, q) and (K, q, r)"
        )
    return a @ b


def mode3_product(tensor: Any, matrix: Array) -> Array:
    """Multiply a tensor by a matrix along the samples (mode 3 of the literature, axis 0 here).

    Parameters
    ----------
    tensor : array of shape (n, p, q)
        The tensor.
    matrix : array of shape (r, n), real or complex
        The matrix that multiplies every tube ``tensor[:, i, j]``.

    Returns
    -------
    array of shape (r, p, q)

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.algebra import mode3_product
    >>> mode3_product(np.arange(3.0).reshape(3, 1, 1), np.ones((1, 3))).ravel()
    array([3.])
    """
    tensor, matrix = _as_tensor(tensor), plain_array(matrix, "the matrix")
    if matrix.ndim != 2 or matrix.shape[1] != tensor.shape[0]:
        raise ValueError(
            f"a matrix of shape {tuple(matrix.shape)} cannot multiply a tensor of {tensor.shape[0]} samples: "
            f"expected shape (r, {tensor.shape[0]})"
        )
    xp = namespace(tensor, matrix)
    dtype = xp.result_type(tensor.dtype, matrix.dtype)
    return xp.tensordot(xp.astype(matrix, dtype), xp.astype(tensor, dtype), axes=([1], [0]))


def transform(tensor: Any, basis: Any) -> Array:
    """Return the slices of a tensor under a basis.

    Parameters
    ----------
    tensor : array of shape (n, p, q)
        The tensor.
    basis : str or basis
        The transform.

    Returns
    -------
    array of shape (K, p, q), real or complex

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.algebra import transform
    >>> transform(np.ones((4, 1, 1)), "fft").ravel()
    array([4.+0.j, 0.+0.j, 0.+0.j])
    """
    return _slices(tensor, basis)[0]


def inverse_transform(slices: Array, basis: Any) -> Array:
    """Return the tensor whose slices under a basis are given.

    Parameters
    ----------
    slices : array of shape (K, p, q)
        Slices as returned by `transform`.
    basis : basis
        A fitted basis, because half a spectrum does not determine the number of samples.

    Returns
    -------
    array of shape (n, p, q)

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> basis = tm.FFT().fit(np.empty((3, 1, 1)))
    >>> tm.algebra.inverse_transform(np.array([3.0, 0.0]).reshape(2, 1, 1) + 0j, basis).ravel()
    array([1., 1., 1.])
    """
    return _fitted(basis).inverse(slices)


def _fitted(basis: Any) -> Any:
    if isinstance(basis, str) or not hasattr(basis, "slice_weights_"):
        raise ValueError(f"{basis!r} is not fitted; slices alone do not determine the number of samples")
    return basis


def t_product(a: Any, b: Any, basis: Any) -> Array:
    """Return the t-product of two tensors: transform, multiply slice by slice, transform back.

    Parameters
    ----------
    a : array of shape (n, p, q)
        The left factor.
    b : array of shape (n, q, r)
        The right factor.
    basis : str or basis
        The transform.

    Returns
    -------
    array of shape (n, p, r)

    Examples
    --------
    Under the FFT, the product of two tubes is their circular convolution:

    >>> import numpy as np
    >>> from tensormvc.algebra import t_product
    >>> shift = np.array([0.0, 1, 0]).reshape(3, 1, 1)
    >>> t_product(shift, np.array([1.0, 2, 3]).reshape(3, 1, 1), "fft").ravel().round(12)
    array([3., 1., 2.])
    """
    a, b = _as_tensor(a, "the left tensor"), _as_tensor(b, "the right tensor")
    basis = fitted_basis(basis, a)
    return basis.inverse(facewise_product(basis.forward(a), basis.forward(b)))


def t_transpose(tensor: Any, basis: Any) -> Array:
    """Return the transpose of a tensor under a basis: the conjugate transpose of every slice.

    Parameters
    ----------
    tensor : array of shape (n, p, q)
        The tensor.
    basis : str or basis
        The transform.

    Returns
    -------
    array of shape (n, q, p)

    Examples
    --------
    Under the FFT, this also reverses the order of all slices but the first:

    >>> import numpy as np
    >>> from tensormvc.algebra import t_transpose
    >>> t_transpose(np.array([1.0, 2, 3]).reshape(3, 1, 1), "fft").ravel().round(12)
    array([1., 3., 2.])
    """
    slices, basis = _slices(tensor, basis)
    return basis.inverse(_adjoint(slices))


def _adjoint(slices: Array) -> Array:
    xp = namespace(slices)
    return xp.conj(xp.matrix_transpose(slices))


def t_identity(size: int, basis: Any, *, like: Array | None = None) -> Array:
    """Return the tensor whose slices under a basis are all the identity matrix.

    Parameters
    ----------
    size : int
        Number of rows and columns of each slice.
    basis : basis
        A fitted basis.
    like : array, optional
        The result has the array namespace, the real dtype and the device of this array; by default it is a NumPy array
        of float64.

    Returns
    -------
    array of shape (n, size, size)

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tm.algebra.t_identity(2, tm.FFT().fit(np.empty((2, 1, 1))))
    array([[[1., 0.],
            [0., 1.]],
           [[0., 0.],
            [0., 0.]]])
    """
    basis = _fitted(basis)
    like = np.empty(0) if like is None else like
    xp = namespace(like)
    eye = xp.eye(size, dtype=real_dtype(like), device=device(like))
    slices = xp.broadcast_to(eye, (len(basis.slice_weights_), size, size))
    return basis.inverse(xp.asarray(slices, copy=True))


def is_orthogonal(tensor: Any, basis: Any, *, tol: float | None = None) -> bool:
    """Whether a tensor Q is orthogonal under a basis: Qᵀ∗Q and Q∗Qᵀ are the identity.

    Parameters
    ----------
    tensor : array of shape (n, p, p)
        The tensor Q; the result is False if its slices are not square.
    basis : str or basis
        The transform.
    tol : float, optional
        Largest entry of the difference that counts as rounding; √ε of the dtype by default.

    Returns
    -------
    bool

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> basis = tm.DCT().fit(np.empty((5, 1, 1)))
    >>> tm.algebra.is_orthogonal(tm.algebra.t_identity(3, basis), basis)
    True
    """
    q, _ = _slices(tensor, basis)
    if q.shape[1] != q.shape[2]:
        return False
    xp = namespace(q)
    tol = _default_tolerance(q) if tol is None else tol
    eye = xp.eye(q.shape[1], dtype=q.dtype, device=device(q))
    return all(float(xp.max(xp.abs(product - eye))) <= tol for product in (_adjoint(q) @ q, q @ _adjoint(q)))


def is_f_diagonal(tensor: Any, basis: Any, *, tol: float | None = None) -> bool:
    """Whether all slices of a tensor are diagonal (f-diagonal in the literature).

    The answer is the same for all bases that transform the same mode, because a linear transform along the slices keeps
    diagonal slices diagonal.

    Parameters
    ----------
    tensor : array of shape (n, p, q)
        The tensor.
    basis : str or basis
        The transform.
    tol : float, optional
        Largest entry off the diagonal that counts as rounding, relative to the largest entry; √ε of the dtype by
        default.

    Returns
    -------
    bool

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.algebra import is_f_diagonal
    >>> is_f_diagonal(np.stack([np.eye(2), 3 * np.eye(2)]), "dct")
    True
    """
    slices, _ = _slices(tensor, basis)
    xp = namespace(slices)
    tol = _default_tolerance(slices) if tol is None else tol
    magnitudes = xp.abs(slices)
    eye = xp.eye(slices.shape[1], slices.shape[2], dtype=magnitudes.dtype, device=device(slices))
    return float(xp.max(magnitudes * (1 - eye))) <= tol * float(xp.max(magnitudes))


def _default_tolerance(slices: Array) -> float:
    return math.sqrt(namespace(slices).finfo(slices.dtype).eps)


def gt_svd(tensor: Any, basis: Any, *, full_matrices: bool = True) -> tuple[Array, Array, Array]:
    """Return the GT-SVD of a tensor under a basis: U ∗ S ∗ Vᵀ with orthogonal U, V and f-diagonal S.

    Parameters
    ----------
    tensor : array of shape (n, p, q)
        The tensor. Under a basis that discards part of the spectrum (AGFT), its projection is factorised.
    basis : str or basis
        The transform.
    full_matrices : bool, default=True
        Whether U and V are square; otherwise they have min(p, q) columns.

    Returns
    -------
    U : array of shape (n, p, p) or (n, p, min(p, q))
        Orthogonal under the basis.
    S : array of shape (n, p, q) or (n, min(p, q), min(p, q))
        f-diagonal.
    V : array of shape (n, q, q) or (n, q, min(p, q))
        Orthogonal under the basis.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.algebra import gt_svd, t_product, t_transpose
    >>> a = np.random.default_rng(0).normal(size=(4, 3, 2))
    >>> u, s, v = gt_svd(a, "fft")
    >>> back = t_product(t_product(u, s, "fft"), t_transpose(v, "fft"), "fft")
    >>> bool(np.allclose(back, a))
    True
    """
    slices, basis = _slices(tensor, basis)
    xp = namespace(slices)
    left, s, right = xp.linalg.svd(slices, full_matrices=full_matrices)
    if xp.isdtype(slices.dtype, "complex floating"):
        # A slice that is its own conjugate needs real singular vectors, or the factors are not real tensors.
        own = xp.nonzero(xp.all(xp.imag(slices) == 0, axis=(1, 2)))[0]
        if own.shape[0]:
            left_real, _, right_real = xp.linalg.svd(xp.real(slices[own]), full_matrices=full_matrices)
            left[own], right[own] = xp.astype(left_real, left.dtype), xp.astype(right_real, right.dtype)
    middle = xp.zeros((s.shape[0], left.shape[2], right.shape[1]), dtype=slices.dtype, device=device(slices))
    diagonal = xp.arange(s.shape[1], device=device(slices))
    middle[:, diagonal, diagonal] = xp.astype(s, slices.dtype)
    return basis.inverse(left), basis.inverse(middle), basis.inverse(_adjoint(right))


def singular_values(tensor: Any, basis: Any) -> Array:
    """Return the singular values of every slice of a tensor under a basis.

    Parameters
    ----------
    tensor : array of shape (n, p, q)
        The tensor.
    basis : str or basis
        The transform.

    Returns
    -------
    array of shape (K, min(p, q))
        In descending order; slice k represents ``basis.slice_weights_[k]`` slices of the full spectrum.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.algebra import singular_values
    >>> singular_values(np.ones((4, 2, 2)), "fft").round(12)
    array([[8., 0.],
           [0., 0.],
           [0., 0.]])
    """
    return _spectrum(tensor, basis)[0]


def _spectrum(tensor: Any, basis: Any) -> tuple[Array, Any]:
    """Return the singular values of all slices, and the fitted basis."""
    slices, basis = _slices(tensor, basis)
    return namespace(slices).linalg.svdvals(slices), basis


def _mean_over_slices(per_slice: Array, basis: Any) -> float:
    """Return the sum over the full spectrum, divided by the length n₃ of the transformed mode.

    Slices that the basis discards count as zero.
    """
    xp = namespace(per_slice)
    weights = xp.asarray(basis.slice_weights_, dtype=per_slice.dtype, device=device(per_slice))
    return float(xp.sum(per_slice * weights)) / float(getattr(basis, "mode_length_", np.sum(basis.slice_weights_)))


def tensor_rank(tensor: Any, basis: Any, *, tol: float | None = None) -> float:
    """Return the generalised tensor rank: the mean rank of the slices.

    Parameters
    ----------
    tensor : array of shape (n, p, q)
        The tensor.
    basis : str or basis
        The transform.
    tol : float, optional
        Singular values up to this fraction of the largest one of all slices count as zero; max(n, p, q)·ε by default,
        as in `numpy.linalg.matrix_rank`.

    Returns
    -------
    float
        A mean, which need not be an integer.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.algebra import tensor_rank
    >>> tensor_rank(np.ones((4, 3, 3)), "fft")
    0.25
    """
    s, basis = _spectrum(tensor, basis)
    xp = namespace(s)
    if tol is None:
        tol = max(np.shape(tensor)) * float(xp.finfo(s.dtype).eps)
    counts = xp.sum(xp.astype(s > tol * float(xp.max(s)), s.dtype), axis=1)
    return _mean_over_slices(counts, basis)


def surrogate_norm(tensor: Any, basis: Any, penalty: Any = "nuclear") -> float:
    """Return the surrogate norm ‖tensor‖ᵠ: the sum of ψ over the singular values of all slices, divided by n₃.

    Parameters
    ----------
    tensor : array of shape (n, p, q)
        The tensor.
    basis : str or basis
        The transform.
    penalty : str or penalty, default="nuclear"
        ψ; with "nuclear" this is the tensor nuclear norm.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.algebra import surrogate_norm
    >>> surrogate_norm(np.ones((4, 2, 2)), "fft")
    2.0
    """
    s, basis = _spectrum(tensor, basis)
    values = make_penalty(penalty).value(s)
    return _mean_over_slices(namespace(values).sum(values, axis=1), basis)
