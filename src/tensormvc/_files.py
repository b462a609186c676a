"""Files that appear complete or not at all, and never in place of another unless that is asked for."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

StrPath = str | PathLike[str]

# What a file system says that has no hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def check_target(target: StrPath, *, overwrite: bool = False, make_folder: bool = False) -> None:
    """Refuse, before any work is done for it, a target that is there already or whose folder cannot be written.

    With `make_folder` it is enough that the folder can be made.
    """
    if is_special(target):
        return
    path = Path(os.path.realpath(target))
    if path.exists() and not overwrite:
        raise FileExistsError(f"{target} is there already")
    folder = path.parent
    while make_folder and not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(f"{target}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{target}: no permission to write in {folder}")


@contextmanager
def writing(target: StrPath, *, overwrite: bool = False, folder: bool = False) -> Iterator[Path]:
    """Yield a place to write, which becomes the target in one step when the block ends without an error.

    The place is in the folder of the target and has its suffix. Of two programs that write the same target at once,
    one gets a FileExistsError unless it may overwrite. A device or a pipe is written to as it is.

    Parameters
    ----------
    target : str or path-like
        Where to; a link stays a link.
    overwrite : bool, default=False
        Whether to replace what is there.
    folder : bool, default=False
        Whether the target is a folder; the place is then an empty one.
    """
    if is_special(target):
        yield Path(target)
        return
    path = Path(os.path.realpath(target))
    check_target(target, overwrite=overwrite)
    if path.exists() and path.is_dir() != folder:
        raise FileExistsError(f"{target} is a {'file' if folder else 'folder'}, and is not replaced by the other")
    workplace = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        place = workplace / ("new" + path.suffix)
        if folder:
            place.mkdir()
        yield place
        _to_disk(place)
        try:
            _move(place, path, workplace / "old", overwrite, folder)
        except FileExistsError as error:
            raise FileExistsError(f"{target} is there already: another program has just written it") from error
        with suppress(OSError):  # the name is durable where a folder can be synchronised
            _sync(path.parent)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def is_special(path: StrPath) -> bool:
    """Whether the path is a device, a pipe or a socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _move(place: Path, path: Path, old: Path, overwrite: bool, folder: bool) -> None:
    if folder:
        _move_folder(place, path, old, overwrite)
    elif overwrite:
        os.replace(place, path)
    else:
        try:
            os.link(place, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(place, path)


def _move_folder(place: Path, path: Path, old: Path, overwrite: bool) -> None:
    if overwrite and path.exists():
        os.rename(path, old)
    try:
        os.rename(place, path)
    except BaseException as error:
        if old.exists() and not path.exists():
            os.rename(old, path)
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise FileExistsError(str(path)) from error
        raise


def _to_disk(place: Path) -> None:
    """Make sure that the contents are on the disk, where errors such as a full one may show only now."""
    for file in place.iterdir() if place.is_dir() else [place]:
        _sync(file)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
