"""Files that are whole or not there, and what identifies them."""

import errno
import os

import pytest

from fitrag_integrations.core import files
from fitrag_integrations.errors import InputError, StorageError


def test_a_file_is_identified_by_all_that_is_in_it(tmp_path):
    large = tmp_path / "weights"
    large.write_bytes(b"a" * 3_000_000)
    before, first = large.stat(), files.fingerprint(large)
    assert files.fingerprint(large) == first and list(tmp_path.iterdir()) == [large]
    large.write_bytes(b"a" * 1_500_000 + b"b" + b"a" * 1_499_999)
    os.utime(large, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.fingerprint(large) != first


def test_a_name_counts_in_a_folder(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text("same")
    assert files.fingerprint(tmp_path / "one") != files.fingerprint(tmp_path / "two")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "page.html"
    files.write_whole(path, "old")
    path.chmod(0o640)
    with pytest.raises(RuntimeError), files.replacing(path) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    files.write_whole(path, "new é")
    assert path.read_text("utf-8") == "new é" and path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "text"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left"),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), "quota"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS)), "Read-only"),
        (RuntimeError("I/O error: No space left on device (os error 28)"), "No space left"),
    ],
)
def test_an_error_of_the_disk_names_file_and_bytes(error, told):
    wanted = pytest.raises(StorageError, match=f"model.bin.*1,234 bytes.*{told}")
    with wanted as caught, files.storing("model.bin", 1234):
        raise error
    assert isinstance(caught.value, OSError) and caught.value.__cause__ is error


def test_other_errors_stay_as_they_are():
    for error in (ValueError("x"), PermissionError(errno.EACCES, "no"), FileNotFoundError("x")):
        with pytest.raises(type(error)), files.storing("model.bin"):
            raise error


def test_a_full_device_is_a_storage_error(tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs a full device")
    (tmp_path / "out").symlink_to("/dev/full")
    with pytest.raises(StorageError, match="7 bytes.*No space left"):
        files.write_whole(tmp_path / "out", "1234567")


def test_one_writer_by_inode(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "hard").hardlink_to(tmp_path / "file")
    with files.only_writer(tmp_path / "file"), files.only_writer(tmp_path / "hard"):
        if pid := os.fork():
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        else:
            files._HELD.clear()  # as in a process of its own
            try:
                with files.only_writer(tmp_path / "hard"):
                    os._exit(0)
            except InputError:
                os._exit(7)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "model.json")
    with pytest.raises(OSError, match="not a regular file"):
        files.read_file(tmp_path / "model.json")
