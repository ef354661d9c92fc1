"""What a killed process leaves in the directory for temporary files, and what is left alone there."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2.node.engine.temp_directory import TempDirectory, remove_abandoned

_HOLD = """
import sys
from mm2.node.engine.temp_directory import TempDirectory
directory = TempDirectory("node")
(directory.path / "blockmgr-1").mkdir()
(directory.path / "blockmgr-1" / "block").write_text("records")
print(directory.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def other(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with its directory."""
    environment = {**os.environ, "TMPDIR": str(place)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD], stdin=pipe, stdout=pipe, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_the_directory_of_a_killed_process_is_removed(
    place: Path, other: tuple[subprocess.Popen[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    process, directory = other
    with caplog.at_level(logging.INFO):
        remove_abandoned("node")
        assert (directory / "blockmgr-1" / "block").exists(), "its process lives"
        process.kill()
        process.wait()
        remove_abandoned("mirror")
        assert (directory / "blockmgr-1" / "block").exists(), "it belongs to another kind of process"
        assert caplog.messages == []
        remove_abandoned("node")
    assert not directory.exists()
    assert caplog.messages == [f"removed temporary directories of killed processes in {place}: {directory.name}"]


def test_a_directory_is_in_use_until_it_is_removed(place: Path) -> None:
    directory = TempDirectory("node")
    remove_abandoned("node")
    assert directory.path.is_dir()
    assert directory.path.stat().st_mode & 0o077 == 0
    directory.remove()
    assert list(place.iterdir()) == []
    directory.remove()


def test_what_cannot_be_told_to_be_abandoned_is_left_alone(
    place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "in-use").touch()
    (place / "mm2-node-link").symlink_to(elsewhere)
    (place / "mm2-node-file").touch()
    (place / "mm2-node-empty").mkdir()
    (place / "mm2-node-starting").mkdir()
    (place / "mm2-node-starting" / "in-use.new").touch()
    linked = place / "mm2-node-linked"
    linked.mkdir()
    (linked / "in-use").symlink_to(elsewhere / "in-use")
    (place / "mm2-other").mkdir()
    before = sorted(place.rglob("*"))
    remove_abandoned("node")
    assert sorted(place.rglob("*")) == before
    assert (elsewhere / "in-use").exists()


@pytest.mark.needs("root")
def test_a_directory_of_another_user_is_left_alone(place: Path) -> None:
    directory = place / "mm2-node-theirs"
    directory.mkdir()
    (directory / "in-use").touch()
    os.chown(directory, 65534, 65534)
    remove_abandoned("node")
    assert directory.is_dir()


def test_what_a_symbolic_link_in_it_points_to_is_kept(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").touch()
    directory = TempDirectory("node")
    (directory.path / "link").symlink_to(elsewhere)
    (directory.path / "spark-1").mkdir()
    (directory.path / "spark-1" / "link").symlink_to(elsewhere)
    (directory.path / "lanes.sock").touch()
    directory.clear()
    assert [entry.name for entry in directory.path.iterdir()] == ["in-use"]
    directory.remove()
    assert (elsewhere / "kept").exists()


def test_what_a_jvm_writes_while_a_directory_is_removed_is_removed_later(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directory = TempDirectory("node")
    rmdir = Path.rmdir

    def written_meanwhile(path: Path) -> None:
        (path / "spark-1").mkdir()
        rmdir(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rmdir", written_meanwhile)
        patched.setattr("os.rmdir", _refuse)  # as rmtree removes a directory to which something was written
        directory.remove()
    assert [entry.name for entry in place.iterdir()] == [directory.path.name]
    with caplog.at_level(logging.INFO):
        remove_abandoned("node")
    assert list(place.iterdir()) == []
    assert caplog.messages == [f"removed temporary directories of killed processes in {place}: {directory.path.name}"]


def _refuse(*_: object, **__: object) -> None:
    raise OSError("directory not empty")


@pytest.mark.needs("root")
def test_a_place_that_cannot_be_listed(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As mode 1733, in which users can create files and not see those of others."""
    place.chmod(0o1733)
    os.seteuid(65534)
    try:
        remove_abandoned("node")
    finally:
        os.seteuid(0)
    rule = f"cannot look for temporary directories of killed processes in {place}"
    assert caplog.messages == [f"{rule}: Permission denied"]


def test_without_locks_the_directory_is_never_abandoned(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: int) -> None:
        raise OSError("no locks available")

    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", flock)
        directory = TempDirectory("node")
    remove_abandoned("node")
    assert directory.path.is_dir()
