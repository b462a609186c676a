"""NumPy or PyTorch: which namespace an array belongs to, its type, and how it gets to another device."""

from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import array_namespace, device, is_numpy_namespace, is_torch_namespace

# A NumPy or PyTorch array; the array API has no common type.
Array = Any
_NUMPY = array_namespace(np.empty(0))


def namespace(*arrays: Array) -> Any:
    """Return the array namespace of NumPy arrays or PyTorch tensors.

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
    """Return a PyTorch device by its name, or say clearly what is missing."""
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"device={name!r} needs PyTorch: pip install 'tensormvc[torch]', or leave device=None for NumPy"
        ) from None
    try:
        found = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={name!r} is not a PyTorch device, such as 'cuda' or 'cpu': {error}") from None
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise RuntimeError(
            f"device={name!r}: PyTorch {torch.__version__} finds {torch.cuda.device_count()} CUDA devices here; "
            "leave device=None to compute with NumPy"
        )
    return found


def is_tensor(array: Any) -> bool:
    """Whether the array is a PyTorch tensor, on any device: PyTorch runs its own threads."""
    return not isinstance(array, np.ndarray) and is_array(array)


def on_host(array: Any) -> Any:
    """Return an array on any device as a NumPy array; sparse arrays as they are."""
    return array if is_sparse(array) or isinstance(array, np.ndarray) else np.asarray(array.detach().cpu())


def on_device(array: Any, device: Any) -> Any:
    """Return an array as a tensor on a device; a sparse one, or any without a device, as it is."""
    if device is None or is_sparse(array):
        return array
    import torch

    return torch.as_tensor(array, device=device)


def placed(array: Any, like: Array) -> Array:
    """Return an array in the namespace and on the device of `like`."""
    xp = namespace(like)
    if is_numpy_namespace(xp):
        return on_host(array)
    return xp.asarray(np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array, device=device(like))


def is_single(array: Any) -> bool:
    """Whether an array is in single precision."""
    # The types of the two libraries do not compare.
    return str(array.dtype).endswith("float32")


def in_double(array: Any) -> Any:
    """Return an array, or a CSR, as float64 where it is."""
    if is_sparse(array) or isinstance(array, np.ndarray):
        return array.astype(np.float64, copy=False)
    return array.double()


def complex_dtype(array: Array) -> Any:
    """Complex dtype of the same precision as a real floating array."""
    xp = namespace(array)
    return xp.complex64 if array.dtype == xp.float32 else xp.complex128


def real_dtype(array: Array) -> Any:
    """Real dtype of the same precision as a real or complex floating array."""
    xp = namespace(array)
    return xp.float32 if array.dtype in (xp.complex64, xp.float32) else xp.float64


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
