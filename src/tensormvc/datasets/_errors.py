"""Errors of the loaders, and the memory limit that is checked before anything is allocated."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .._files import StrPath
from ..backend.checks import available_memory

# Deflate cannot compress by more than this factor, so a larger one is a false declaration.
MAX_DEFLATE_RATIO = 1032
# Cells within cells or groups within groups: anything deeper is a cycle or an attack.
MAX_DEPTH = 16


class DataError(ValueError):
    """A file or folder cannot be loaded as views.

    Parameters
    ----------
    message : str
        The file, the problem and the remedy.

    Examples
    --------
    >>> import tensormvc as tm
    >>> tm.datasets.load_views("nowhere.mat")
    Traceback (most recent call last):
    ...
    tensormvc.datasets...: nowhere.mat: no such file or folder
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class LayoutError(DataError):
    """A file can be read, but a parameter of the loader must say which of its contents are views, labels or samples."""


class MissingDataError(DataError, FileNotFoundError):
    """The file or folder does not exist."""

    # FileNotFoundError would format its arguments as an error number and a text.
    __str__ = ValueError.__str__
    # ValueError.__new__, the first in the order of the bases, rejects this class; Dask calls it to pickle exceptions.
    __new__ = FileNotFoundError.__new__  # type: ignore[assignment]


def refuse_if(condition: Any, message: str) -> None:
    """Raise a `DataError` with this message if the condition holds: a check of what a file contains."""
    if condition:
        raise DataError(message)


@contextmanager
def reading(path: StrPath) -> Iterator[None]:
    """Turn any exception that a damaged file causes into a `DataError` that names the file.

    A missing optional dependency and a lack of memory are not the file's fault and pass through.
    """
    try:
        yield
    except DataError as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise type(error)(f"{path}: {error}") from error.__cause__
    except (ImportError, MemoryError):
        raise
    except PermissionError as error:
        raise DataError(f"{path}: no permission to read it") from error
    except Exception as error:
        raise DataError(f"{path}: the file is damaged or not what its name says ({error or repr(error)})") from error


class Budget:
    """Memory that the contents of one file may use: half of what is available.

    Every declared size is counted before the bytes are read.
    """

    def __init__(self) -> None:
        self.limit = available_memory() // 2
        self.taken = 0

    def take(self, n_bytes: int, what: str) -> None:
        """Count `n_bytes` for `what`, or raise a `DataError` if the file would then exceed the limit."""
        self.taken += n_bytes
        if n_bytes < 0 or self.taken > self.limit:
            limit = f"half of the available memory ({self.limit:,} bytes)"
            raise DataError(f"{what} declares {n_bytes:,} bytes: the file would take {self.taken:,}, more than {limit}")


def require(module: str, what: str, extra: str = "io") -> Any:
    """Import a module of an optional dependency, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{what} needs {package}: pip install 'tensormvc[{extra}]'") from error
