"""Low-rank shrinkage of a tensor under a basis (Algorithms 1 and 2), and the ℓ2,1 shrinkage."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from array_api_compat import device

from .backend.arrays import Array, contiguous, is_tensor, namespace, on_host, placed, real_view
from .backend.checks import as_real_array, check_finite, check_threshold
from .backend.linalg import matmul_into, thin_qr, thin_svd
from .backend.threads import run_ranges
from .bases import Basis, fitted_basis
from .penalties import Penalty, make_penalty

__all__ = ["l21_shrink", "low_rank_shrink", "shrink_slices"]

# Slices that are shrunk together: enough to amortise the interpreter, few enough to stay in the cache.
_BLOCK_BYTES = 4 * 2**20
# A GPU wants large batches.
_DEVICE_BLOCK_BYTES = 512 * 2**20
# Below this share of the largest, a singular value read off a Gram matrix has lost half its digits.
_GRAM_IS_EXACT = 1e-4
# Error, as a share of the largest singular value, above which a slice goes through a plain SVD.
_GRAM_TOLERANCE = 1e-11
# Which of numbers or rows that alternate are real parts, and which are imaginary parts.
IN_TURN = slice(0, None, 2), slice(1, None, 2)


def low_rank_shrink(
    tensor: Any,
    basis: Any,
    penalty: Any,
    threshold: float,
    *,
    out: Array | None = None,
    work: Array | None = None,
) -> Array:
    """Shrink the singular values of every slice of a tensor under a basis.

    Forward transform, proximal map of `penalty` on the singular values of every slice, inverse transform.
    The threshold is applied to the coefficients as they are: those of the FFT are not normalised, those of
    the orthogonal transforms are.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        Sample-first; integers are converted to float64. NaN and infinity are errors.
    basis : str or basis
        A name or a fixed basis is fitted to the size of the tensor; any other basis must be fitted.
    penalty : str or penalty
        A name or an object with ``value`` and ``prox``.
    threshold : float
        τ ≥ 0.
    out : array of shape (n, d, m), optional
        Where the result goes; may be `tensor` itself.
    work : array, optional
        Room for the slices, as ``basis.forward`` returns them, to be reused from call to call.

    Returns
    -------
    array of shape (n, d, m)
        In the type of the tensor.

    Notes
    -----
    Memory beyond the tensor: the slices (as large as the tensor, if `work` is not given), the result (if
    `out` is not given) and a few megabytes.

    See `shrink_slices` for the arithmetic and its accuracy.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.random.default_rng(0).normal(size=(6, 4, 3))
    >>> shrunk = tm.shrinkage.low_rank_shrink(tensor, "dct", "nuclear", 0.5)
    >>> bool(np.linalg.norm(shrunk) < np.linalg.norm(tensor))
    True
    """
    tensor = as_real_array(tensor, "tensor", 3)
    basis = fitted_basis(basis, tensor)
    if isinstance(basis, Basis):
        slices = shrink_slices(basis.forward(tensor, out=work), penalty, threshold, overwrite=True)
        return basis.inverse(slices, out=out)
    result = basis.inverse(shrink_slices(basis.forward(tensor), penalty, threshold))
    if out is None:
        return result
    out[...] = result
    return out


def shrink_slices(slices: Any, penalty: Any, threshold: float, *, overwrite: bool = False) -> Array:
    """Apply the proximal map of a penalty to the singular values of every matrix of a stack.

    Parameters
    ----------
    slices : array of shape (K, p, q), real or complex
        The matrices.
    penalty : str or penalty
        A name or an object with ``value`` and ``prox``.
    threshold : float
        τ ≥ 0.
    overwrite : bool, default=False
        Whether the result may take the place of `slices`.

    Returns
    -------
    array of shape (K, p, q)

    Notes
    -----
    With the Gram matrix ``G = AᴴA = V diag(s²) Vᴴ`` of the smaller side, the result is
    ``A V diag(prox(s)/s) Vᴴ``: no singular vectors of the long side, one batched eigenproblem of the size of
    the short side. Gram matrices and eigenproblems are in double precision whatever the type of the slices.

    A singular value below about 1e-8 of the largest cannot be told from 0 in a Gram matrix, and one below
    1e-4 is inaccurate. Where that would change the result by more than 1e-11 of the largest singular
    value, that slice goes through a plain SVD; so do slices whose squares overflow or underflow. What is
    left is rounding: a singular value within rounding of a jump of the proximal map may fall on the other
    side of it, at an equal objective value.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.shrinkage import shrink_slices
    >>> shrink_slices(np.diag([3.0, 1.0])[None], "nuclear", 2.0).round(12)
    array([[[1., 0.],
            [0., 0.]]])
    """
    penalty = make_penalty(penalty)
    threshold = check_threshold(threshold)
    xp = namespace(slices)
    if slices.ndim != 3 or 0 in slices.shape:
        raise ValueError(f"slices have shape {tuple(slices.shape)}; expected a stack (K, p, q), not empty")
    if not xp.isdtype(slices.dtype, ("real floating", "complex floating")):
        raise TypeError(f"slices have the type {slices.dtype}; expected real or complex floating numbers")
    slices = contiguous(slices) if overwrite else xp.asarray(contiguous(slices), copy=True)
    if threshold == 0:
        check_finite(slices, "the tensor")
        return slices

    shrink_in_place(slices, penalty, threshold)
    return slices


def shrink_in_place(slices: Array, penalty: Any, threshold: float) -> Array:
    """Shrink slices (K, p, q) that are contiguous and known to be right; return the penalty of each result, (K,)."""
    xp = namespace(slices)
    values = xp.zeros(slices.shape[0], dtype=xp.float64, device=device(slices))
    room = _DEVICE_BLOCK_BYTES if is_tensor(slices) else _BLOCK_BYTES
    block = max(1, room // (16 * slices.shape[1] * slices.shape[2]))

    def work(start: int, stop: int) -> None:
        _shrink_blocks(slices[start:stop], penalty, threshold, block, values[start:stop])

    run_ranges(work, slices, block)
    return values


def _shrink_blocks(slices: Array, penalty: Any, threshold: float, block: int, values: Array) -> None:
    """Shrink slices in place, `block` at a time, with one buffer for all of them; set the penalties of the results."""
    xp = namespace(slices)
    wide = slices.shape[1] < slices.shape[2]
    buffer = None
    for start in range(0, slices.shape[0], block):
        part = slices[start : start + block]
        if block == 1 and xp.isdtype(part.dtype, "complex floating") and not bool(xp.any(xp.imag(part) != 0)):
            # A large slice that is its own conjugate: a quarter of the work.
            real = xp.asarray(xp.real(part), copy=True)
            _shrink_blocks(real, penalty, threshold, block, values[start : start + block])
            part[...] = real
            continue
        # The Gram matrix is taken on the shorter side.
        gram = _gram_of_rows(part) if wide else _gram(part)
        exact, filters, values[start : start + block] = _filters(part, gram, penalty, threshold)
        # A tall complex slice is worked on as the real matrix of its interleaved parts.
        reals = part if wide else real_view(part)
        if buffer is None:
            buffer = xp.empty_like(reals)
        product = buffer[: reals.shape[0]]
        if filters is None:
            product[...] = 0
        elif wide:
            matmul_into(xp.astype(filters, part.dtype, copy=False), part, product)
        else:
            matmul_into(reals, _real_factor(filters, part, *IN_TURN), product)
        if not bool(xp.all(exact)):
            shrunk, penalties = _shrink_by_svd(part[~exact], penalty, threshold)
            values[start : start + block][~exact] = xp.astype(penalties, values.dtype, copy=False)
            product[~exact] = shrunk if wide else real_view(shrunk)
        reals[...] = product


def shrink_stacked(
    stacked: Array, penalty: Any, threshold: float, *, scales: Array, parts: tuple[slice, slice] | None, out: Array
) -> Array:
    """Shrink slices that lie on their side, real and imaginary parts one under the other.

    Slice k is the transpose of ``stacked[k]``, times its scale. Nothing is moved in memory, and nothing is checked but
    that all is finite. The arithmetic is that of `shrink_slices`.

    Parameters
    ----------
    stacked : array of shape (K, q, p), or (K, 2 q, p)
        The slices, (p, q) each, q at most p; divided by the scales.
    penalty : penalty
        With ``value`` and ``prox``.
    threshold : float
        τ ≥ 0.
    scales : array of shape (K,)
        Of the slices.
    parts : (slice, slice), optional
        Which rows of complex slices are real parts, and which are imaginary parts.
    out : array of the shape of `stacked`
        Where the result goes.

    Returns
    -------
    array of shape (K,)
        The penalty of each result; `out` is divided by the scales, too.
    """
    xp = namespace(stacked)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = (stacked @ xp.matrix_transpose(stacked)) * (scales**2)[:, None, None]
    gram = _complex_gram(gram, *parts) if parts else gram
    exact, filters, values = _filters(stacked, gram, penalty, threshold)
    if filters is None:
        out[...] = 0
    else:
        matmul_into(_real_factor(filters, stacked, *parts) if parts else filters, stacked, out)
    if bool(xp.all(exact)):
        return values
    where = placed(np.flatnonzero(~on_host(exact)), stacked)
    sizes = scales[where][:, None, None]
    given = stacked[where] * sizes
    wide = given[:, parts[0]] + 1j * given[:, parts[1]] if parts else given
    tall = xp.matrix_transpose(wide)
    if is_tensor(tall):
        # Of a tall slice only the triangle goes through an SVD.
        columns, tall = thin_qr(tall)
        triangles, values[where] = _shrink_by_svd(tall, penalty, threshold)
        shrunk = columns @ triangles
    else:
        shrunk, values[where] = _shrink_by_svd(tall, penalty, threshold)
    shrunk = xp.matrix_transpose(shrunk) / sizes
    if parts:
        out[where, parts[0]], out[where, parts[1]] = xp.real(shrunk), xp.imag(shrunk)
    else:
        out[where] = shrunk
    return values


def _filters(slices: Array, gram: Array, penalty: Any, threshold: float) -> tuple[Array, Array | None, Array]:
    """Return where the Gram matrices of slices are good enough, V diag(prox(s)/s) Vᴴ (None if all are 0), and Σψ."""
    xp = namespace(slices)
    exact = xp.all(xp.isfinite(gram), axis=(1, 2))
    if not bool(xp.all(exact)):
        check_finite(slices, "the tensor")
        gram = xp.where(exact[:, None, None], gram, xp.zeros_like(gram))
    # No singular value exceeds the root of the trace: where that is shrunk to nothing, all are.
    trace = xp.sum(xp.real(xp.linalg.diagonal(gram)), axis=-1)
    finfo = xp.finfo(trace.dtype)
    underflow = finfo.smallest_normal / finfo.eps
    most = xp.sqrt(trace * (1 + _GRAM_TOLERANCE) + underflow)
    if not bool(xp.any(_unchecked(penalty, "prox")(most, threshold) > 0)):
        return exact, None, xp.zeros_like(trace)
    squares, vectors = xp.linalg.eigh(gram)
    squares = xp.clip(squares, min=0.0)
    ratio = _shrink_ratio(squares, penalty, threshold)
    largest = squares[:, -1:]
    doubtful = squares < _GRAM_IS_EXACT**2 * largest + underflow
    if bool(xp.any(doubtful)):
        rounding = 4 * gram.shape[2] * finfo.eps * largest + underflow
        low = _shrink_ratio(xp.clip(squares - rounding, min=0.0), penalty, threshold)
        high = _shrink_ratio(squares + rounding, penalty, threshold)
        error = xp.sqrt(squares + rounding) * (high - low)
        exact = exact & ~xp.any(doubtful & (error > _GRAM_TOLERANCE * xp.sqrt(largest)), axis=1)
    values = xp.sum(_unchecked(penalty, "value")(ratio * xp.sqrt(squares)), axis=1)
    return exact, (vectors * ratio[:, None, :]) @ xp.conj(xp.matrix_transpose(vectors)), values


def _shrink_ratio(squares: Array, penalty: Any, threshold: float) -> Array:
    """Return prox(s)/s for the squares of singular values, 0 where s is 0."""
    xp = namespace(squares)
    s = xp.sqrt(squares)
    return _unchecked(penalty, "prox")(s, threshold) / xp.where(s > 0, s, xp.ones_like(s))


def _unchecked(penalty: Any, what: str) -> Callable[..., Array]:
    """Return "value" or "prox" of a penalty, for values that are known to be right: past the checks of our own."""
    function: Callable[..., Array] = getattr(penalty, f"_{what}" if isinstance(penalty, Penalty) else what)
    return function


def _gram(tall: Array) -> Array:
    """Return AᴴA of every matrix, in double precision.

    The complex case is one real product of the interleaved parts: half the traffic of conjugating first.
    """
    xp = namespace(tall)
    reals = xp.astype(real_view(tall), xp.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = xp.matrix_transpose(reals) @ reals
    return _complex_gram(gram, *IN_TURN) if xp.isdtype(tall.dtype, "complex floating") else gram


def _complex_gram(gram: Array, re: slice, im: slice) -> Array:
    """Return AᴴA from the Gram matrix of the real and imaginary parts of the columns of A."""
    real = gram[:, re, re] + gram[:, im, im]
    imaginary = gram[:, re, im] - gram[:, im, re]
    return real + 1j * imaginary


def _gram_of_rows(wide: Array) -> Array:
    """Return AAᴴ of every matrix, in double precision."""
    xp = namespace(wide)
    kind = xp.complex128 if xp.isdtype(wide.dtype, "complex floating") else xp.float64
    rows = xp.astype(wide, kind, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        return rows @ xp.matrix_transpose(xp.conj(rows) if kind == xp.complex128 else rows)


def _real_factor(filters: Array, tall: Array, re: slice, im: slice) -> Array:
    """Return the real matrices that multiply real and imaginary parts as `filters` multiply the slices."""
    xp = namespace(tall)
    if xp.isdtype(filters.dtype, "complex floating"):
        k, q, _ = filters.shape
        real, imaginary = xp.real(filters), xp.imag(filters)
        factor = xp.empty((k, 2 * q, 2 * q), dtype=real.dtype, device=device(filters))
        factor[:, re, re] = factor[:, im, im] = real
        factor[:, re, im] = imaginary
        factor[:, im, re] = -imaginary
        filters = factor
    return xp.astype(filters, real_view(tall).dtype, copy=False)


def _shrink_by_svd(slices: Array, penalty: Any, threshold: float) -> tuple[Array, Array]:
    """Shrink by the textbook, one SVD per slice; return the slices and their penalties."""
    xp = namespace(slices)
    left, s, right = thin_svd(slices)
    s = _unchecked(penalty, "prox")(s, threshold)
    return (left * s[:, None, :]) @ right, xp.sum(_unchecked(penalty, "value")(s), axis=1)


def l21_shrink(matrices: Any, threshold: float, *, overwrite: bool = False) -> Array | list[Array]:
    """Shrink the length of every row: f ← max(0, 1 − τ/‖f‖) f.

    Parameters
    ----------
    matrices : array of shape (n, d), or a list of arrays (n, d_v)
        One row per sample. The rows of a list are stacked: a sample has one length over all matrices.
    threshold : float
        τ ≥ 0.
    overwrite : bool, default=False
        Whether the result may take the place of `matrices`.

    Returns
    -------
    array, or list of arrays
        As given.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.shrinkage import l21_shrink
    >>> l21_shrink(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    array([[2.4, 3.2],
           [0. , 0. ]])
    """
    threshold = check_threshold(threshold)
    single = not isinstance(matrices, Sequence) or (len(matrices) > 0 and np.ndim(matrices[0]) == 1)
    given = [matrices] if single else list(matrices)
    if not given:
        raise ValueError("no matrices to shrink")
    parts = [as_real_array(matrix, f"matrix {i}", 2) for i, matrix in enumerate(given)]
    if len({part.shape[0] for part in parts}) > 1:
        raise ValueError(f"the matrices have different numbers of rows: {[part.shape[0] for part in parts]}")
    xp = namespace(*parts)
    lengths = xp.stack([xp.linalg.vector_norm(part, axis=1) for part in parts])
    length = xp.linalg.vector_norm(lengths, axis=0)
    check_finite(length, "the matrices")
    scale = xp.clip(1 - threshold / xp.where(length > 0, length, xp.ones_like(length)), min=0.0)[:, None]
    shrunk = [
        xp.multiply(part, scale, out=part if overwrite and part is matrix else None)
        for matrix, part in zip(given, parts, strict=True)
    ]
    return shrunk[0] if single else shrunk
