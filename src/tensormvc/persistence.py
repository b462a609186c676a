"""Fitted models in one file: a zip archive of `.npy` arrays and one JSON manifest, without pickle.

A file is data, never code. Its objects are created by the constructors of an explicit list of classes of this package,
its arrays by ``numpy.load(..., allow_pickle=False)``, and every size is checked against the other sizes, the file and
the memory before anything is allocated. `docs/model_files.md` describes the format.
"""

import hashlib
import json
import math
import platform
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, BinaryIO

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from . import __version__, penalties
from ._files import StrPath, is_special, writing
from ._registry import GRAPHS, METHODS, TRANSFORMS
from .backend.arrays import is_array, on_host
from .backend.checks import available_memory
from .views._collect import is_dask

__all__ = ["load", "save"]

_FORMAT, _VERSION = "tensormvc model", 2
_MANIFEST = "manifest.json"
# The comment at the end of the archive is the SHA-256 of all bytes before it, in hexadecimal digits.
_DIGEST_LENGTH = 64
_END_OF_DIRECTORY = 22 + _DIGEST_LENGTH
_LARGEST_DIRECTORY = 2**20
# Arrays may take this many times the size of the file: deflate alone would allow 1032, for zip bombs.
_MAX_RATIO = 100
# Memory that the objects of a manifest may take, beside the size of the arrays.
_OBJECT_MEMORY = 2**26
# Arrays whose first bytes do not get smaller than this are not compressed.
_WORTH_COMPRESSING = 0.8
_DTYPE = re.compile(r"[<>|][biufcSUmM]\d{1,9}(\[\w+\])?")
# Ends each string of an array: a byte that UTF-8 does not contain.
_END = b"\xff"

# Classes of which a model may consist, beside the penalties. Files name them without their modules, so that a class can
# move to another one.
_CLASSES = [
    *[*METHODS.values(), *TRANSFORMS.values(), *GRAPHS.values()],
    "tensormvc.auto:MultiViewClustering",
    "tensormvc.auto._looks:ChosenScaling",
    "tensormvc.auto._members:Member",
    "tensormvc.auto._number:CandidateLevel",
    "tensormvc.auto._number:ClusterNumber",
    "tensormvc.auto._fitted:FittedClustering",
    "tensormvc.auto._fitted:FittedView",
    "tensormvc.auto._report:AutoReport",
    "tensormvc.auto._report:LookSummary",
    "tensormvc.auto._scaling:Scaling",
    "tensormvc.backend.linalg:SparseFactor",
    "tensormvc.bases._base:ConvertedMatrix",
    "tensormvc.methods._admm:Record",
    "tensormvc.methods._prediction:AnchorPlacement",
    "tensormvc.published:ReweightedETR",
]
_PATHS = {path.partition(":")[2]: path for path in _CLASSES}
_PATHS |= {name: f"tensormvc.penalties:{name}" for name in penalties.__all__ if name[0].isupper()}


def save(model: Any, path: StrPath) -> None:
    """Save an estimator to a file, from which `load` restores it with everything that it learned.

    The file contains no pickle, only JSON and NumPy arrays. It is written completely or not at all, and replaces an
    existing one. It contains the fitted attributes, which may include samples: a `MultiViewClustering` model contains
    the values of its landmarks.

    Parameters
    ----------
    model : estimator
        An estimator of this package, fitted or not. PyTorch tensors and Dask arrays among its attributes are saved as
        NumPy arrays. Functions (`callback`, `progress`) and objects of classes outside this package, such as your own
        basis, cannot be saved.
    path : str or path-like
        The file to write, by convention with the suffix ``.tmvc``.

    See Also
    --------
    load : Restore the model.

    Examples
    --------
    >>> import tempfile, tensormvc as tm
    >>> from pathlib import Path
    >>> views, y = tm.datasets.load_digits_views(100)
    >>> model = tm.ESTMC(n_clusters=10, random_state=0).fit(views)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tm.save(model, Path(folder) / "digits.tmvc")
    ...     again = tm.load(Path(folder) / "digits.tmvc")
    >>> bool((again.labels_ == model.labels_).all()), again
    (True, ESTMC(n_clusters=10, random_state=0))
    """
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"cannot save {type(model).__name__}: expected an estimator of tensormvc")
    if is_special(path):
        raise ValueError(f"cannot save a model to {path}: it must be a regular file")
    encoder = _Encoder()
    try:
        tree = encoder.encode(model, "")
    except RecursionError:
        raise TypeError(f"cannot save {type(model).__name__}: an attribute contains itself") from None
    with writing(path, overwrite=True) as place:
        for compressed in (True, False):
            _write(place, encoder.arrays, tree, compressed=compressed)
            # The manifest, and arrays of strings, are in the file as they are.
            if sum(array.nbytes for array in encoder.arrays) <= (_MAX_RATIO - 1) * place.stat().st_size:
                break
        # What cannot be loaded is not saved.
        with open(place, "rb") as stream, zipfile.ZipFile(_checked(stream)) as archive:
            _read_manifest(archive)


def load(path: StrPath) -> Any:
    """Load an estimator from a file that `save` wrote.

    Files from other people are safe to load: nothing in them is executed, and a small file cannot use much memory.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator
        Parameters and fitted attributes equal those of the saved estimator, to the last bit; arrays are NumPy arrays.

    Raises
    ------
    ValueError
        If the file is damaged, incomplete, not from `save`, from a newer version, or too large for the memory.

    See Also
    --------
    save : Write the file.

    Examples
    --------
    >>> import tempfile, tensormvc as tm
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tm.save(tm.GMC(n_clusters=3), Path(folder) / "gmc.tmvc")
    ...     tm.load(Path(folder) / "gmc.tmvc")
    GMC(n_clusters=3)
    """
    with open(path, "rb") as stream:
        try:
            with zipfile.ZipFile(_checked(stream)) as archive:
                manifest = _read_manifest(archive)
                arrays = _read_arrays(archive, manifest["arrays"])
            return _decoded_object(manifest["model"], arrays)
        except _UnreadableError as error:
            raise ValueError(f"{path}: {error}") from error
        except Exception as error:
            problem = f"the file does not have the contents that tensormvc.save writes ({error!r})"
            raise ValueError(f"{path}: {problem}: save the model again") from error


class _UnreadableError(ValueError):
    """The reason why a file is refused, and the remedy."""


def _refuse_if(condition: Any, message: str) -> None:
    if condition:
        raise _UnreadableError(message)


# From values to JSON and arrays, and back.


@dataclass(frozen=True)
class _Kind:
    """How values of a type are taken apart into values that can be saved, and put together again."""

    type: type
    parts: Callable[[Any], Any]
    value: Callable[[Any], Any]


def _compressed(kind: type, parts: list[Any]) -> Any:
    """Return a sparse array of its shape and vectors, all of whose indices are in bounds: SciPy relies on them."""
    (rows, columns), data, indices, indptr = parts
    axis = rows if kind in (sp.csr_array, sp.csr_matrix) else columns
    vectors = [data, indices, indptr]
    if any(type(vector) is not np.ndarray or vector.ndim != 1 or not vector.dtype.isnative for vector in vectors):
        raise ValueError("a sparse array needs three vectors")
    # Otherwise SciPy would convert, and copy, them.
    if data.dtype.kind not in "biufc" or indices.dtype != indptr.dtype or indices.dtype not in (np.int32, np.int64):
        raise ValueError("a sparse array needs numbers, and indices of one type")
    if len(indptr) != axis + 1 or len(data) != len(indices) or min(rows, columns) < 0:
        raise ValueError("the parts of a sparse array do not fit each other")
    matrix = kind((rows, columns), dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = vectors
    matrix.check_format(full_check=True)
    return matrix


def _random_state(parts: list[Any]) -> np.random.RandomState:
    key, position, *gauss = parts
    if not 0 <= position <= 624:  # where NumPy would read
        raise ValueError("no state of a random generator")
    state = np.random.RandomState(0)
    state.set_state(("MT19937", np.array(key, dtype=np.uint32), position, *gauss))
    return state


def _scalar(parts: list[str]) -> Any:
    dtype, content = _checked_dtype(parts[0]), bytes.fromhex(parts[1])
    if len(content) != dtype.itemsize:
        raise ValueError("a scalar has another size than its type")
    return np.ndarray((), dtype, content)[()]


def _strings(parts: list[Any]) -> NDArray[np.object_]:
    shape, texts = parts
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("an array of objects may only hold strings")
    return np.array(texts, dtype=object).reshape(shape)


_KINDS = (
    {
        "float": _Kind(float, str, float),  # only those that JSON does not have: NaN and infinities
        "tuple": _Kind(tuple, list, tuple),
        "dict": _Kind(dict, lambda mapping: [list(item) for item in mapping.items()], dict),
        "slice": _Kind(slice, lambda span: [span.start, span.stop, span.step], lambda parts: slice(*parts)),
        "scalar": _Kind(
            np.generic, lambda scalar: [np.asarray(scalar).dtype.str, np.asarray(scalar).tobytes().hex()], _scalar
        ),
        "strings": _Kind(np.object_, list, _strings),  # in files of format 1, where their texts are in the manifest
        "RandomState": _Kind(
            np.random.RandomState,
            lambda state: [state.get_state()[1].tolist(), *state.get_state()[2:]],
            _random_state,
        ),
    }
    | {
        kind.__name__: _Kind(
            kind,
            lambda matrix: [list(matrix.shape), matrix.data, matrix.indices, matrix.indptr],
            partial(_compressed, kind),
        )
        for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)
    }
)
_TAGS = {kind.type: tag for tag, kind in _KINDS.items()}


class _Encoder:
    """Turns a model into a tree for JSON, in which arrays are numbers of the list `arrays`."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._numbers: dict[int, int] = {}

    def encode(self, value: Any, where: str) -> Any:
        """Return the tree of a value; `where` is its place in the model, for errors."""
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
        if is_dask(value):
            return self.encode(value.compute(), where)
        if (kind.__module__, kind.__name__) == ("torch", "device"):
            return str(value)
        if isinstance(value, np.generic):
            kind = np.generic if _DTYPE.fullmatch(value.dtype.str) else kind
        elif is_array(value):
            return {"type": "array", "number": self._number_of(on_host(value), where)}
        if kind in _TAGS:
            tag = _TAGS[kind]
            return {"type": tag, "parts": self.encode(_KINDS[tag].parts(value), where)}
        return self._encode_object(value, where)

    def _number_of(self, array: NDArray[Any], where: str) -> int:
        strings = array.dtype.hasobject and all(isinstance(item, str) for item in array.flat)
        if type(array) not in (np.ndarray, np.memmap) or not (strings or _DTYPE.fullmatch(array.dtype.str)):
            kind = f"{type(array).__name__} of {array.dtype}"
            raise TypeError(f"{where} is a {kind}, which cannot be saved: make it an array of numbers or strings")
        # An array that several attributes share is saved once.
        number = self._numbers.setdefault(id(array), len(self.arrays))
        if number == len(self.arrays):
            self.arrays.append(array)
        return number

    def _encode_object(self, value: Any, where: str) -> dict[str, Any]:
        kind = type(value)
        if kind.__name__ not in _PATHS or kind is not _class_named(kind.__name__):
            what, name = f"{kind.__module__}.{kind.__qualname__}", where or "the model"
            if callable(value):
                raise TypeError(f"{name} is a function ({value!r}), which cannot be saved: set it to None before")
            raise TypeError(f"{name} is a {what}, which cannot be saved: only classes of tensormvc can")
        inside = f"{where}." if where else ""
        parameters = {name: getattr(value, name) for name in signature(kind).parameters}
        attributes = {}
        if isinstance(value, BaseEstimator):
            attributes = {name: attribute for name, attribute in vars(value).items() if name not in parameters}
        return {
            "type": "object",
            "class": kind.__name__,
            "parameters": {name: self.encode(item, inside + name) for name, item in parameters.items()},
            "attributes": {
                name: self.encode(item, inside + name)
                for name, item in attributes.items()
                if not isinstance(getattr(kind, name, None), cached_property)
            },
        }


def _class_named(name: str) -> Any:
    _refuse_if(name not in _PATHS, f"it contains a {name!r}, which tensormvc {__version__} does not have: update it")
    return resolve_name(_PATHS[name])


def _decoded(tree: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return the value of a tree."""
    if isinstance(tree, list):
        return [_decoded(item, arrays) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree["type"] == "array":
        return arrays[tree["number"]]
    if tree["type"] == "object":
        return _decoded_object(tree, arrays)
    return _KINDS[tree["type"]].value(_decoded(tree["parts"], arrays))


def _decoded_object(tree: dict[str, Any], arrays: list[NDArray[Any]]) -> Any:
    kind = _class_named(tree["class"])
    parameters = {name: _decoded(item, arrays) for name, item in tree["parameters"].items()}
    try:
        value = kind(**parameters)
    except TypeError as error:
        message = f"the parameters of a {tree['class']} do not fit tensormvc {__version__} ({error})"
        raise _UnreadableError(f"{message}: use the version that saved the file") from error
    attributes = {name: _decoded(item, arrays) for name, item in tree["attributes"].items()}
    wrong = [name for name in attributes if not name.isidentifier() or _is_special(kind, name)]
    _refuse_if(wrong or (attributes and not isinstance(value, BaseEstimator)), f"a {kind.__name__} has no {wrong}")
    vars(value).update(attributes)
    return value


def _is_special(kind: type, name: str) -> bool:
    """Whether an attribute would take the place of a method, or of what scikit-learn shows of an estimator."""
    return name.startswith("__") or hasattr(BaseEstimator, name) or callable(getattr(kind, name, None))


# The archive.


def _write(place: Path, arrays: list[NDArray[Any]], tree: Any, *, compressed: bool) -> None:
    entries = []
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number, array in enumerate(arrays):
            name = f"{number}.npy"
            stored = _packed(array) if array.dtype.hasobject else array
            member = name if compressed and stored is array and _is_compressible(array) else zipfile.ZipInfo(name)
            with archive.open(member, "w", force_zip64=stored.nbytes > 2**30) as stream:
                np.save(stream, stored, allow_pickle=False)
            size, checksum = stored.nbytes, archive.getinfo(name).CRC
            entries.append(
                {"dtype": stored.dtype.str, "shape": list(stored.shape), "bytes": size, "crc32": f"{checksum:08x}"}
            )
            if stored is not array:
                entries[-1]["strings"] = list(array.shape)
        manifest = {
            "format": _FORMAT,
            "format_version": _VERSION,
            "versions": {
                "tensormvc": __version__,
                "numpy": np.__version__,
                "scipy": scipy.__version__,
                "scikit-learn": sklearn.__version__,
                "python": platform.python_version(),
            },
            "model": tree,
            "arrays": entries,
        }
        archive.writestr(zipfile.ZipInfo(_MANIFEST), json.dumps(manifest, allow_nan=False))
        archive.comment = bytes(_DIGEST_LENGTH)
    with open(place, "r+b") as stream:
        digest = _digest(stream)
        stream.seek(-_DIGEST_LENGTH, 2)
        stream.write(digest)


def _packed(strings: NDArray[Any]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(text.encode("utf-8", "surrogatepass") + _END for text in strings.flat), np.uint8)


def _unpacked(shape: list[int], content: NDArray[np.uint8]) -> NDArray[np.object_]:
    text = content.tobytes()
    # An upper bound, as for the manifest.
    memory = 6 * len(text) + 160 * text.count(_END)
    _refuse_if(memory > available_memory(), f"its strings take {memory:,} bytes: free some memory")
    *strings, _ = (part.decode("utf-8", "surrogatepass") for part in text.split(_END))
    return np.array(strings, dtype=object).reshape(shape)


def _is_compressible(array: NDArray[Any]) -> bool:
    sample = array.flat[: 2**16 // max(array.itemsize, 1)].tobytes()
    return len(zlib.compress(sample, 1)) < _WORTH_COMPRESSING * len(sample)


def _digest(stream: BinaryIO) -> bytes:
    """Return the digest of a file up to its last bytes, where it is stored."""
    digest, left = hashlib.sha256(), stream.seek(0, 2) - _DIGEST_LENGTH
    stream.seek(0)
    while left > 0 and (block := stream.read(min(left, 2**16))):
        digest.update(block)
        left -= len(block)
    return digest.hexdigest().encode()


def _checked(stream: BinaryIO) -> BinaryIO:
    """Return a file that is complete, undamaged, and whose table of contents is of a reasonable size."""
    _refuse_if(stream.read(4) != b"PK\x03\x04", "this is not a model file: expected one that tensormvc.save wrote")
    size = stream.seek(0, 2)
    stream.seek(max(0, size - 256))
    tail = stream.read()
    damaged = size < _END_OF_DIRECTORY or tail[-_DIGEST_LENGTH:] != _digest(stream)
    _refuse_if(damaged, "the file is damaged or incomplete: copy it again, or save the model again")
    # The record at the end of a zip archive, whose comment is the digest, and the one that large archives have as well.
    end = tail[-_END_OF_DIRECTORY:-_DIGEST_LENGTH]
    no_end = not end.startswith(b"PK\x05\x06") or end[-2:] != struct.pack("<H", _DIGEST_LENGTH)
    _refuse_if(no_end, "this is not a model file: expected one that tensormvc.save wrote")
    (length,) = struct.unpack_from("<L", tail, len(tail) - _END_OF_DIRECTORY + 12)
    if tail[-_END_OF_DIRECTORY - 20 :].startswith(b"PK\x06\x07"):
        length = max(length, *struct.unpack_from("<Q", tail, len(tail) - _END_OF_DIRECTORY - 20 - 56 + 40))
    _refuse_if(length > _LARGEST_DIRECTORY, "the file has more parts than a model may have")
    stream.seek(0)
    return stream


def _read_manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the manifest of an archive whose sizes are reasonable."""
    members = archive.infolist()
    total, size = sum(info.file_size for info in members), archive.fp.seek(0, 2)  # type: ignore[union-attr]
    _refuse_if(
        total > _MAX_RATIO * size, f"the file declares {total:,} bytes, more than {_MAX_RATIO} times its {size:,} bytes"
    )
    known = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
    _refuse_if(
        {info.compress_type for info in members} - known, "the file is compressed in a way that save does not use"
    )
    last = members[-1]
    whole = last.filename == _MANIFEST and last.compress_type == zipfile.ZIP_STORED and last.file_size <= size
    _refuse_if(not whole, f"the file is not a model file: its last part is {last.filename!r}, not {_MANIFEST}")
    text = archive.read(last)
    # An upper bound of the memory that strings and objects take, before they exist.
    memory = 6 * len(text) + 128 * sum(text.count(mark) for mark in (b"[", b"{", b",", b":"))
    _refuse_if(memory > _OBJECT_MEMORY + total, f"the manifest would take {memory:,} bytes: it has too many objects")
    manifest = json.loads(text)
    _refuse_if(manifest["format"] != _FORMAT, f"the manifest is not that of a {_FORMAT}")
    version = manifest["format_version"]
    _refuse_if(
        type(version) is not int or version > _VERSION,
        f"the file has version {version} of the model format, and tensormvc {__version__} reads versions up to "
        f"{_VERSION}: update tensormvc",
    )
    names = [f"{number}.npy" for number in range(len(manifest["arrays"]))]
    _refuse_if(
        [info.filename for info in members[:-1]] != names, "the parts of the file are not those that the manifest names"
    )
    # Objects take many times as much memory as the bytes of their strings, which may therefore not be compressed.
    parts = zip(members[:-1], manifest["arrays"], strict=True)
    strings = sum(info.file_size for info, entry in parts if "strings" in entry)
    _refuse_if(strings > size, f"its strings have {strings:,} bytes, more than the {size:,} bytes of the file")
    return manifest  # type: ignore[no-any-return]


def _checked_dtype(name: str) -> np.dtype[Any]:
    _refuse_if(not _DTYPE.fullmatch(name), f"arrays of the type {name!r} are never loaded")
    return np.dtype(name)


def _read_arrays(archive: zipfile.ZipFile, entries: list[dict[str, Any]]) -> list[NDArray[Any]]:
    total, available = sum(info.file_size for info in archive.infolist()), available_memory()
    _refuse_if(total > available, f"the model takes {total:,} bytes, and {available:,} are available: free some memory")
    return [_read_array(archive, f"{number}.npy", entry) for number, entry in enumerate(entries)]


def _read_array(archive: zipfile.ZipFile, name: str, entry: dict[str, Any]) -> NDArray[Any]:
    """Return an array whose stated type, shape and sizes all agree; the archive compares its checksum."""
    info = archive.getinfo(name)
    shape, dtype = tuple(entry["shape"]), _checked_dtype(entry["dtype"])
    with archive.open(info) as stream:
        _refuse_if(np.lib.format.read_magic(stream) != (1, 0), f"{name} is not a plain array")
        header = np.lib.format.read_array_header_1_0(stream)
        n_bytes = info.file_size - stream.tell()
    agree = (header[0], header[2]) == (shape, dtype) and min(shape, default=0) >= 0
    agree = agree and math.prod(shape) * dtype.itemsize == entry["bytes"] == n_bytes
    _refuse_if(
        not agree or f"{info.CRC:08x}" != entry["crc32"],
        f"{name} is not the array that the manifest states ({dtype} of shape {shape}): save the model again",
    )
    with archive.open(info) as stream:
        array: NDArray[Any] = np.load(stream, allow_pickle=False)
    return _unpacked(entry["strings"], array) if "strings" in entry else array
