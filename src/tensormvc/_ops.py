"""The few things that the array API lacks, one NumPy and one PyTorch version each."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any

import joblib
import numpy as np
import scipy.fft
import scipy.linalg
import scipy.sparse
from array_api_compat import array_namespace, device, is_numpy_namespace, is_torch_namespace
from threadpoolctl import ThreadpoolController

from ._dft import split_dft

# A NumPy or PyTorch array; the array API has no common type.
Array = Any
_NUMPY = array_namespace(np.empty(0))

# Columns that are transformed together along the first axis: wide enough to read whole cache lines,
# narrow enough for a block of a few thousand rows to stay in the second-level cache.
FFT_COLUMNS = 64
# Numbers in such a block where columns are short: few enough for the cache, enough to outweigh the calls.
FFT_NUMBERS = 2**17
# Rows of a sparse product that are computed together: a block of the result that the cache can hold.
SPARSE_ROWS = 1024
# Chunks into which a device cuts a long sum of products.
DEVICE_CHUNKS = 128
# Bytes of a sparse matrix that are unpacked at a time.
UNPACKED_BYTES = 128 * 2**20


def namespace(*arrays: Array) -> Any:
    """Return the array namespace of the arrays, which are all NumPy's or all PyTorch's.

    Examples
    --------
    >>> import numpy as np
    >>> namespace(np.ones(3)).__name__
    'array_api_compat.numpy'
    """
    if arrays and all(type(array) is np.ndarray for array in arrays):
        return _NUMPY
    xp = array_namespace(*arrays)
    if not (is_numpy_namespace(xp) or is_torch_namespace(xp)):
        raise TypeError(f"arrays of {xp.__name__} are not supported: pass NumPy arrays or PyTorch tensors")
    return xp


def is_array(obj: object) -> bool:
    """Whether the object is a NumPy array or a PyTorch tensor."""
    try:
        namespace(obj)
    except TypeError:
        return False
    return True


def is_sparse(obj: Any) -> bool:
    """Whether the object is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(obj))


def torch_device(name: Any) -> Any:
    """Return a device of PyTorch by its name, or say clearly what is missing."""
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"device={name!r} needs PyTorch: pip install 'tensormvc[torch]', or leave device=None for NumPy"
        ) from None
    try:
        found = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={name!r} is not a device of PyTorch, such as 'cuda' or 'cpu': {error}") from None
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise RuntimeError(
            f"device={name!r}: PyTorch {torch.__version__} finds {torch.cuda.device_count()} CUDA devices here; "
            "leave device=None to compute with NumPy"
        )
    return found


def is_tensor(array: Any) -> bool:
    """Whether the array is a tensor of PyTorch, on whatever device: its library runs the threads by itself."""
    return not isinstance(array, np.ndarray) and is_array(array)


def on_host(array: Any) -> Any:
    """Return NumPy's array of an array on whatever device; a CSR as it is."""
    return array if is_sparse(array) or isinstance(array, np.ndarray) else np.asarray(array.detach().cpu())


def placed(array: Any, like: Array) -> Array:
    """Return an array of NumPy's (or one of the kind of `like`) in the namespace and on the device of `like`."""
    xp = namespace(like)
    if is_numpy_namespace(xp):
        return on_host(array)
    return xp.asarray(np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array, device=device(like))


def is_single(array: Any) -> bool:
    """Whether an array is in single precision."""
    # A type of PyTorch has no equal of NumPy's.
    return str(array.dtype).endswith("float32")


def in_double(array: Any) -> Any:
    """Return an array, or a CSR, as float64 where it is."""
    if is_sparse(array) or isinstance(array, np.ndarray):
        return array.astype(np.float64, copy=False)
    return array.double()


def thread_count() -> int:
    """Threads to use beside BLAS: the processors at hand, or ``OMP_NUM_THREADS`` if that is fewer.

    Process pools (joblib, loky, Dask) set that variable in their workers, so nested parallelism does not
    oversubscribe the machine. Processors are counted once.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    available = _processors()
    return min(available, int(limit)) if limit.isdigit() and int(limit) > 0 else available


@cache
def _processors() -> int:
    # It reads files of the system each time.
    return int(joblib.cpu_count())


_this_thread = threading.local()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Return a context in which BLAS has no threads of its own: they take longer to meet than a small product takes."""
    return _libraries().limit(limits=1, user_api="blas")


def parallel_ranges(work: Callable[[int, int], None], size: int, grain: int = 1) -> None:
    """Run ``work(start, stop)`` over ``range(size)`` cut into one contiguous piece a thread.

    Pieces are multiples of `grain` (but for the last). NumPy's kernels release the interpreter lock, so
    threads are enough; the results must not depend on where the cuts are. Inside one of its own threads it runs the
    work as it is.
    """
    n_pieces = 1 if getattr(_this_thread, "works", False) else min(thread_count(), -(-size // grain))
    if n_pieces <= 1:
        work(0, size)
        return

    step = grain * -(-size // (grain * n_pieces))
    # Threads that each call a BLAS with threads of its own would wait for one another.
    with one_blas_thread():
        others = [_pool().submit(work, start, min(start + step, size)) for start in range(step, size, step)]
        try:
            with one_thread():
                work(0, step)
            for future in others:
                future.result()
        finally:
            # Nothing may go on behind an error, or Ctrl-C: what it works on is the caller's.
            for future in others:
                future.cancel()
            wait(others)


@cache
def _pool() -> ThreadPoolExecutor:
    # Kept, since starting a thread takes as long as a small piece of work.
    return ThreadPoolExecutor(_processors(), "tensormvc", initializer=_mark_thread)


def _mark_thread() -> None:
    _this_thread.works = True


if hasattr(os, "register_at_fork"):
    # Threads do not live on in a process that is forked.
    os.register_at_fork(after_in_child=_pool.cache_clear)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run what `parallel_ranges` is given in this thread: for work that is one of many tasks already."""
    before = getattr(_this_thread, "works", False)
    _this_thread.works = True
    try:
        yield
    finally:
        _this_thread.works = before


def run_ranges(work: Callable[[int, int], None], array: Array, grain: int = 1) -> None:
    """Run ``work(start, stop)`` over the rows of an array, on all threads if it is NumPy's."""
    if is_tensor(array):
        work(0, array.shape[0])
    else:
        parallel_ranges(work, array.shape[0], grain)


def sum_of_squares(rows: Array) -> Array:
    """Squared length of every row of a matrix."""
    if is_numpy_namespace(namespace(rows)):
        return np.einsum("ij,ij->i", rows, rows)
    return (rows * rows).sum(dim=1)


def inner(left: Array, right: Array) -> Array:
    """Product of the transpose of a tall matrix (n, p) with another (n, q)."""
    if is_numpy_namespace(namespace(left)):
        return left.T @ right
    # A device needs many products at once: chunks of rows, then their sum, in an order of its own that never changes.
    size = left.shape[0] // DEVICE_CHUNKS
    if size < DEVICE_CHUNKS:
        return left.T @ right
    cut = size * DEVICE_CHUNKS
    chunks = [array[:cut].unflatten(0, (DEVICE_CHUNKS, size)) for array in (left, right)]
    return (chunks[0].mT @ chunks[1]).sum(0) + left[cut:].T @ right[cut:]


def raise_to_zero(array: Array) -> Array:
    """Replace negative numbers by zero, in place."""
    if is_numpy_namespace(namespace(array)):
        return np.maximum(array, 0, out=array)
    return array.clamp_(min=0)


def smallest(rows: Array, count: int) -> tuple[Array, Array]:
    """Return the `count` smallest values of every row, ascending, and where they are."""
    if not is_numpy_namespace(namespace(rows)):
        return tuple(rows.topk(count, dim=1, largest=False, sorted=True))
    where = np.argpartition(rows, count - 1, axis=1)[:, :count] if count < rows.shape[1] else None
    values = rows if where is None else np.take_along_axis(rows, where, axis=1)
    ranks = np.argsort(values, axis=1, kind="stable")
    where = ranks if where is None else np.take_along_axis(where, ranks, axis=1)
    return np.take_along_axis(values, ranks, axis=1), where


def two_smallest(columns: Array) -> tuple[Array, Array, Array]:
    """Return the smallest number of every column, which it is, and the next smallest.

    No number is negative, and all are spoilt. Of those that agree to some 13 digits the first counts as the smallest.
    """
    if not is_numpy_namespace(namespace(columns)):
        values, where = columns.min(dim=0)
        columns[where, placed(np.arange(columns.shape[1]), columns)] = np.inf
        return values, where, columns.amin(dim=0)
    # Positive numbers are in the order of their bits, of which the last ones say which it is: one pass along the rows,
    # where looking for the place of the smallest would take several down the columns.
    bits = columns.view(np.int64)
    low = (1 << (len(columns) - 1).bit_length()) - 1
    bits &= ~low
    bits |= np.arange(len(columns))[:, None]
    values = columns.min(axis=0)
    where = values.view(np.int64) & low
    columns[where, np.arange(columns.shape[1])] = np.inf
    return values, where, columns.min(axis=0)


def kth_smallest(rows: Array, k: Array) -> Array:
    """Return the value of rank k[i], from 0 on, of every row i, as a column."""
    if is_numpy_namespace(namespace(rows)):
        return np.take_along_axis(np.partition(rows, np.unique(k), axis=1), k[:, None], axis=1)
    return rows.sort(dim=1).values.gather(1, k[:, None])


def leading_eigenpairs(symmetric: Array, count: int) -> tuple[Array, Array]:
    """Return the largest eigenvalues of a symmetric matrix and their vectors, descending; overwrites the matrix."""
    if is_numpy_namespace(namespace(symmetric)):
        size = len(symmetric)
        values, vectors = scipy.linalg.eigh(
            symmetric, subset_by_index=[size - count, size - 1], overwrite_a=True, check_finite=False
        )
        return values[::-1], np.ascontiguousarray(vectors[:, ::-1])
    values, vectors = namespace(symmetric).linalg.eigh(symmetric)
    return values[-count:].flip(0), vectors[:, -count:].flip(1)


def cholesky(matrix: Array) -> Array | None:
    """Return the lower triangular L with L Lᵀ = A, or None if A is not positive definite."""
    if is_numpy_namespace(namespace(matrix)):
        try:
            return np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return None
    lower, info = namespace(matrix).linalg.cholesky_ex(matrix)
    return None if int(info) else lower


def solve_lower(lower: Array, right: Array, *, transposed: bool = False) -> Array:
    """Solve L X = B, or Lᵀ X = B, for a lower triangular L."""
    triangle = lower.T if transposed else lower
    if is_numpy_namespace(namespace(lower)):
        return scipy.linalg.solve_triangular(triangle, right, lower=not transposed, check_finite=False)
    return namespace(lower).linalg.solve_triangular(triangle, right, upper=transposed)


def vectors_beside(columns: Array) -> Array:
    """Return orthonormal vectors (n, n − k) that are orthogonal to k independent columns (n, k)."""
    n_columns = columns.shape[1]
    if is_numpy_namespace(namespace(columns)):
        return scipy.linalg.qr(columns, check_finite=False)[0][:, n_columns:]
    return namespace(columns).linalg.qr(columns, mode="complete")[0][:, n_columns:]


def thin_qr(tall: Array) -> tuple[Array, Array]:
    """Return orthonormal columns Q (K, p, q) and the R (K, q, q) of a stack of tall tensors of PyTorch, q being small.

    A device factors long matrices one after the other; this is Gram and Schmidt on all of them at once, done twice,
    which is enough. A column that depends on those before it may have a zero one in Q.
    """
    # The largest entry first: squares of huge or tiny numbers do not exist.
    largest = tall.abs().amax(dim=(1, 2), keepdim=True)
    tall = tall / largest.where(largest > 0, 1.0)
    basis = tall.new_zeros(tall.shape)
    for j in range(tall.shape[2]):
        before, column = basis[:, :, :j], tall[:, :, j : j + 1]
        once = column - before @ (before.mH @ column)
        twice = once - before @ (before.mH @ once)
        length = twice.norm(dim=1, keepdim=True)
        # What the second pass takes most of was rounding, in the span of the columns before.
        independent = length > once.norm(dim=1, keepdim=True) / 2
        basis[:, :, j : j + 1] = (twice / length.where(independent, 1.0)).where(independent, 0.0)
    return basis, (basis.mH @ tall) * largest


def real_view(array: Array) -> Array:
    """View a complex array (..., m) as the real (..., 2m) of its interleaved parts; a real one as it is."""
    xp = namespace(array)
    if not xp.isdtype(array.dtype, "complex floating"):
        return array
    if is_numpy_namespace(xp):
        return array.view(array.real.dtype)
    return xp.view_as_real(array).flatten(-2)


def contiguous(array: Array) -> Array:
    """Return the array itself if it lies row by row in memory, else a copy that does."""
    if is_numpy_namespace(namespace(array)):
        return np.ascontiguousarray(array)
    return array.contiguous()


def matmul_into(left: Array, right: Array, out: Array) -> Array:
    """Matrix product written to `out`, which must not overlap the factors."""
    if is_numpy_namespace(namespace(left)):
        return np.matmul(left, right, out=out)
    import torch

    return torch.matmul(left, right, out=out)


def complex_dtype(array: Array) -> Any:
    """Complex dtype of the same precision as a real floating array."""
    xp = namespace(array)
    return xp.complex64 if array.dtype == xp.float32 else xp.complex128


def real_dtype(array: Array) -> Any:
    """Real dtype of the same precision as a real or complex floating array."""
    xp = namespace(array)
    return xp.float32 if array.dtype in (xp.complex64, xp.float32) else xp.float64


def _transform_columns(transform: Callable[[Array], Array], array: Array, out: Array) -> Array:
    """Apply a transform along axis 0 of a 2-D NumPy array in narrow column blocks, on all threads.

    A transform along the first axis of a wide array walks memory with a long stride; blocks of columns
    that fit the cache make it several times faster.
    """
    n_rows, n_columns = array.shape
    # As many blocks for every one of two or four threads; how many depends on the shape alone, as rounding might, too.
    n_blocks = -(-n_columns // max(FFT_COLUMNS, FFT_NUMBERS // n_rows))
    if n_columns > FFT_COLUMNS // 2:
        n_blocks = 2 * -(-n_blocks // 2)
    width = -(-n_columns // n_blocks)

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, width):
            hi = min(lo + width, stop)
            out[:, lo:hi] = transform(array[:, lo:hi])

    parallel_ranges(work, n_columns, width)
    return out


def _along_first_axis(
    numpy_transform: Callable[[Array], Array],
    torch_transform: Callable[[Array], Array],
    array: Array,
    out: Array | None,
    length: int,
    dtype: Any,
) -> Array:
    xp = namespace(array)
    if not is_numpy_namespace(xp):
        result = contiguous(torch_transform(array))
        if out is None:
            return result
        out[...] = result
        return out
    if out is None:
        out = np.empty((length, *array.shape[1:]), dtype=dtype)
    columns = array.reshape(array.shape[0], -1)
    _transform_columns(numpy_transform, columns, out.reshape(length, -1))
    return out


def rfft(array: Array, out: Array | None = None) -> Array:
    """Unnormalised half-spectrum DFT of a real array along axis 0."""
    split = split_dft(array.shape[0], real_dtype(array)) if is_numpy_namespace(namespace(array)) else None
    return _along_first_axis(
        split.forward if split else lambda block: scipy.fft.rfft(block, axis=0),
        lambda tensor: namespace(tensor).fft.rfft(tensor, axis=0),
        array,
        out,
        array.shape[0] // 2 + 1,
        complex_dtype(array),
    )


def irfft(array: Array, n: int, out: Array | None = None) -> Array:
    """Inverse of `rfft` to `n` samples along axis 0."""
    split = split_dft(n, real_dtype(array)) if is_numpy_namespace(namespace(array)) else None
    return _along_first_axis(
        split.inverse if split else lambda block: scipy.fft.irfft(block, n=n, axis=0),
        lambda tensor: namespace(tensor).fft.irfft(tensor, n=n, axis=0),
        array,
        out,
        n,
        real_dtype(array),
    )


def dct(array: Array, out: Array | None = None) -> Array:
    """Orthonormal DCT-II along axis 0."""
    return _along_first_axis(
        lambda block: scipy.fft.dct(block, axis=0, norm="ortho"),
        _torch_dct,
        array,
        out,
        array.shape[0],
        array.dtype,
    )


def idct(array: Array, out: Array | None = None) -> Array:
    """Inverse (transpose) of `dct` along axis 0."""
    return _along_first_axis(
        lambda block: scipy.fft.idct(block, axis=0, norm="ortho"),
        _torch_idct,
        array,
        out,
        array.shape[0],
        array.dtype,
    )


def _dct_twiddles(tensor: Array) -> tuple[Array, Array]:
    """Cosines and sines of πk/2n with the orthonormal scale, shaped to broadcast over axis 0."""
    import torch

    n = tensor.shape[0]
    angle = torch.arange(n, dtype=torch.float64, device=tensor.device) * (np.pi / (2 * n))
    scale = torch.full_like(angle, (2 / n) ** 0.5)
    scale[0] = (1 / n) ** 0.5
    shape = (n,) + (1,) * (tensor.ndim - 1)
    cos, sin = (scale * torch.cos(angle)).reshape(shape), (scale * torch.sin(angle)).reshape(shape)
    return cos.to(tensor.dtype), sin.to(tensor.dtype)


def _torch_dct(tensor: Array) -> Array:
    """DCT-II as the FFT of the even samples followed by the odd ones in reverse."""
    import torch

    cos, sin = _dct_twiddles(tensor)
    folded = torch.cat([tensor[::2], tensor[1::2].flip(0)])
    spectrum = torch.fft.fft(folded, dim=0)
    return spectrum.real * cos + spectrum.imag * sin


def _torch_idct(tensor: Array) -> Array:
    """DCT-III, the transpose of `_torch_dct`, step by step."""
    import torch

    n = tensor.shape[0]
    cos, sin = _dct_twiddles(tensor)
    folded = torch.fft.fft(torch.complex(tensor * cos, -tensor * sin), dim=0).real
    out = torch.empty_like(tensor)
    n_even = (n + 1) // 2
    out[::2] = folded[:n_even]
    out[1::2] = folded[n_even:].flip(0)
    return out


def one_hot(labels: Any) -> scipy.sparse.csr_array:
    """Return the indicators of clusters, (n, k), from labels that count from 0."""
    labels = np.asarray(labels)
    n = len(labels)
    return scipy.sparse.csr_array((np.ones(n), labels, np.arange(n + 1)), shape=(n, int(labels.max()) + 1))


class SparseFactor:
    """A sparse matrix (n, k) that multiplies dense arrays of any namespace, precision and device.

    The form for the last array is kept, so that a loop converts once. NumPy: rows are worked on by all threads.
    PyTorch: blocks of rows are unpacked and multiplied as dense matrices, since k is a few hundred, which is what a
    device is made for; it gives the same result every time, and needs no more than a block beside the entries.

    Parameters
    ----------
    matrix : csr_array of shape (n, k)
        float64.
    row_blocks : list of slice
        Blocks over which sums over rows run, so that their rounding does not depend on the threads.
    """

    def __init__(self, matrix: Any, row_blocks: list[slice]) -> None:
        self.matrix = matrix
        self.row_blocks = row_blocks
        self._key: Any = None
        self._forms: Any = None

    def times(self, dense: Array, out: Array) -> Array:
        """Multiply the matrix into a dense array (k, p), into `out` (n, p)."""
        forms = self._forms_like(dense)
        if isinstance(forms, _TorchRows):
            for rows in forms.blocks:
                matmul_into(forms.unpacked(rows), dense, out[rows])
            return out
        pieces, _ = forms

        def work(start: int, stop: int) -> None:
            for i in range(start, stop):
                out[i * SPARSE_ROWS : (i + 1) * SPARSE_ROWS] = pieces[i] @ dense

        parallel_ranges(work, len(pieces))
        return out

    def transpose_times(self, dense: Array) -> Array:
        """Multiply the transpose into a dense array (n, p); returns (k, p)."""
        forms = self._forms_like(dense)
        if isinstance(forms, _TorchRows):
            return sum(forms.unpacked(rows).T @ dense[rows] for rows in forms.blocks)
        _, transposed_blocks = forms
        partial = np.empty((len(self.row_blocks), self.matrix.shape[1], dense.shape[1]), dtype=dense.dtype)

        def work(start: int, stop: int) -> None:
            for b in range(start, stop):
                partial[b] = transposed_blocks[b] @ dense[self.row_blocks[b]]

        parallel_ranges(work, len(self.row_blocks))
        return partial.sum(axis=0)

    def gram(self, like: Array) -> Array:
        """Return the product of the transpose and the matrix, (k, k), in float64 and where `like` is."""
        forms = self._forms_like(in_double(like))
        if isinstance(forms, _TorchRows):
            return sum(block.T @ block for block in map(forms.unpacked, forms.blocks))
        _, transposed_blocks = forms
        partial = [np.empty(0)] * len(self.row_blocks)

        def work(start: int, stop: int) -> None:
            for b in range(start, stop):
                partial[b] = (transposed_blocks[b] @ transposed_blocks[b].T).toarray()

        parallel_ranges(work, len(self.row_blocks))
        return np.add.reduce(partial)

    def _forms_like(self, array: Array) -> Any:
        """Return the matrix in pieces, and its transpose by row blocks, as `array` is; for PyTorch, what unpacks it."""
        key = (array.dtype, device(array))
        if key != self._key:
            if is_numpy_namespace(namespace(array)):
                matrix = self.matrix.astype(array.dtype, copy=False)
                starts = range(0, matrix.shape[0], SPARSE_ROWS)
                pieces = [matrix[start : start + SPARSE_ROWS] for start in starts]
                self._forms = pieces, [matrix[block].T for block in self.row_blocks]
            else:
                self._forms = _TorchRows(self.matrix, array)
            self._key = key
        return self._forms

    def __getstate__(self) -> dict[str, Any]:
        return {"matrix": self.matrix, "row_blocks": self.row_blocks, "_key": None, "_forms": None}


class _TorchRows:
    """The entries of a CSR matrix on a device, from which blocks of its rows are unpacked."""

    def __init__(self, matrix: Any, like: Array) -> None:
        import torch

        n, self.width = matrix.shape
        step = max(1, UNPACKED_BYTES // (8 * self.width))
        self.blocks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
        self.indptr = matrix.indptr
        self.columns = torch.as_tensor(matrix.indices, device=like.device)
        self.lengths = torch.as_tensor(np.diff(matrix.indptr), device=like.device)
        self.values = torch.as_tensor(matrix.data, dtype=like.dtype, device=like.device)

    def unpacked(self, rows: slice) -> Array:
        """Return a block of rows as a dense matrix."""
        import torch

        first, last = int(self.indptr[rows.start]), int(self.indptr[rows.stop])
        count = rows.stop - rows.start
        places = torch.arange(0, count * self.width, self.width, device=self.values.device)
        places = places.repeat_interleave(self.lengths[rows], output_size=last - first)
        places += self.columns[first:last]
        dense = self.values.new_zeros(count * self.width)
        dense[places] = self.values[first:last]
        return dense.reshape(count, self.width)
