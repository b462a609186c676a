"""Files and folders that appear complete or not at all, and replace nothing unless asked to."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

StrPath = str | PathLike[str]


def check_target(target: StrPath, *, overwrite: bool = False, make_folder: bool = False) -> None:
    """Refuse a target that exists already or whose folder cannot be written, before anything is computed for it.

    With `make_folder`, it is enough that the folder can be created.
    """
    if is_special(target):
        return
    path = Path(os.path.realpath(target))
    if path.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already")
    folder = path.parent
    while make_folder and not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(f"{target}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{target}: no permission to write in {folder}")


@contextmanager
def writing(target: StrPath, *, overwrite: bool = False, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path, which becomes the target in one step when the block ends without an error.

    The temporary path is next to the target and has its suffix. If two programs write the same target at once, the
    second gets a FileExistsError unless it may overwrite. A device or a pipe is written to directly.

    Parameters
    ----------
    target : str or path-like
        The file or folder to write; a symbolic link is followed.
    overwrite : bool, default=False
        Whether to replace an existing target.
    folder : bool, default=False
        Whether the target is a folder; the temporary path is then an empty folder.
    """
    if is_special(target):
        yield Path(target)
        return
    path = Path(os.path.realpath(target))
    check_target(target, overwrite=overwrite)
    if path.exists() and path.is_dir() != folder:
        raise FileExistsError(f"{target} is a {'file' if folder else 'folder'}, which is not replaced")
    workplace = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        place = workplace / ("new" + path.suffix)
        if folder:
            place.mkdir()
        yield place
        for file in place.iterdir() if folder else [place]:
            _sync(file)  # a full disk may show only now
        try:
            if folder:
                _move_folder(place, path, workplace / "old", overwrite)
            else:
                _move_file(place, path, overwrite)
        except FileExistsError as error:
            raise FileExistsError(f"{target} exists already: another program has just written it") from error
        with suppress(OSError):  # some systems cannot synchronise a folder
            _sync(path.parent)
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def is_special(path: StrPath) -> bool:
    """Whether the path is a device, a pipe or a socket."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _move_file(place: Path, path: Path, overwrite: bool) -> None:
    if not overwrite:
        try:
            return os.link(place, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.replace(place, path)
    return None


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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
