"""The error of the loaders, and the limits that are checked before memory is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from .._files import StrPath
from ..backend import available_memory

# Deflate cannot shrink anything by more than this factor, so a greater one is a false declaration.
MAX_DEFLATE_RATIO = 1032
# Cells in cells, groups in groups: deeper is a cycle or an attack.
MAX_DEPTH = 16


class DataError(ValueError):
    """A file or folder does not hold views that can be loaded.

    Parameters
    ----------
    message : str
        The file, what was found in it, and what to do.

    Examples
    --------
    >>> import tensormvc as tm
    >>> tm.datasets.load_views("nowhere.mat")
    Traceback (most recent call last):
    ...
    tensormvc.datasets...: nowhere.mat: there is no such file or folder
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class LayoutError(DataError):
    """A file can be read, but a parameter of the loader must say what in it are views, labels or samples."""


class MissingDataError(DataError, FileNotFoundError):
    """There is no file or folder of this name."""

    # FileNotFoundError formats its arguments as an error number and a text.
    __str__ = ValueError.__str__
    # What is found first, by the order of the bases, is ValueError's, which cannot make one. Only who calls it by name
    # would notice: Dask does, to pickle exceptions with their tracebacks.
    __new__ = FileNotFoundError.__new__  # type: ignore[assignment]


@contextmanager
def reading(path: StrPath) -> Iterator[None]:
    """Turn whatever a reader raises on a damaged file into a `DataError` that names the file.

    A missing extra and a lack of memory are no fault of the file and pass through.
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
    """Memory that the contents of one file may take: half of what is available.

    Every declared size is taken from it before the bytes are read.
    """

    def __init__(self) -> None:
        self.limit = available_memory() // 2
        self.taken = 0

    def take(self, n_bytes: int, what: str) -> None:
        """Count `n_bytes`, or refuse them."""
        self.taken += n_bytes
        if n_bytes < 0 or self.taken > self.limit:
            raise DataError(
                f"{what} declares {n_bytes:,} bytes, with which the file would take {self.taken:,}; "
                f"the limit is half of the available memory, {self.limit:,}"
            )


def require(module: str, what: str, extra: str = "io") -> Any:
    """Import a module of an extra; its absence says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{what} needs {package}: pip install 'tensormvc[{extra}]'") from error
