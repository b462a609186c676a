"""Files that appear complete or not at all."""

import errno
import os
import stat

import pytest

from tensormvc import _files
from tensormvc._files import check_target, writing


def test_nothing_is_there_before_the_end(tmp_path):
    with writing(tmp_path / "a.txt") as place:
        assert place.suffix == ".txt"
        place.write_text("new")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_permissions_are_the_usual_ones(tmp_path):
    with writing(tmp_path / "a.txt") as place:
        place.write_text("new")
    (tmp_path / "b.txt").write_text("new")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.txt", "b.txt")}
    assert len(modes) == 1


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_what_was_there(folder, error, tmp_path):
    def fill(place, text):
        (place / "part" if folder else place).write_text(text)

    with writing(tmp_path / "a", folder=folder) as place:
        fill(place, "old")

    def write_half():
        with writing(tmp_path / "a", overwrite=True, folder=folder) as place:
            fill(place, "half")
            raise error

    with pytest.raises(error):
        write_half()
    assert (tmp_path / "a" / "part" if folder else tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("folder", [False, True])
def test_the_second_of_two_writers_is_told(folder, links, tmp_path, monkeypatch):
    """Both began when nothing was there."""

    def no_links(source, target):
        raise OSError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", no_links)

    def write_two():
        with writing(tmp_path / "a", folder=folder) as second:
            (second / "part" if folder else second).write_text("second")
            with writing(tmp_path / "a", folder=folder) as first:
                (first / "part" if folder else first).write_text("first")

    with pytest.raises(FileExistsError, match="exists already"):
        write_two()
    assert (tmp_path / "a" / "part" if folder else tmp_path / "a").read_text() == "first"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_is_put_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "part").write_text("old")
    rename = os.rename

    def fail(source, target):
        if os.path.basename(source) == "new":
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(_files.os, "rename", fail)
    with pytest.raises(KeyboardInterrupt), writing(tmp_path / "a", overwrite=True, folder=True) as place:
        (place / "part").write_text("new")
    assert (tmp_path / "a" / "part").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_on_the_way(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for target, folder in (("file", True), ("folder", False)):
        with (
            pytest.raises(FileExistsError, match="is not replaced"),
            writing(tmp_path / target, overwrite=True, folder=folder),
        ):
            raise AssertionError("nothing may be written")
    with pytest.raises(FileExistsError):
        check_target(tmp_path / "file")
    check_target(tmp_path / "file", overwrite=True)
    with pytest.raises(OSError, match="there is no folder"):
        check_target(tmp_path / "new" / "file")
    check_target(tmp_path / "new" / "newer" / "file", make_folder=True)
    with pytest.raises(OSError, match="there is no folder"):
        check_target(tmp_path / "file" / "inside", make_folder=True)


def test_a_pipe_is_written_to_as_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    check_target(tmp_path / "pipe")
    with writing(tmp_path / "pipe") as place:
        place.write_text("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
