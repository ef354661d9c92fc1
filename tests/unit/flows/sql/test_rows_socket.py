"""The socket between the workers of a SQL lane."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

import pytest

from flows.sql.lane_workers import LONGEST_PATH, socket_path


def test_each_attempt_and_each_job_has_its_own_socket() -> None:
    paths = {socket_path(token, attempt) for token in ("a", "b") for attempt in (0, 1)}
    assert len(paths) == 4
    assert socket_path("a", 0) in paths
    assert all(Path(path).parent == Path(tempfile.gettempdir()) for path in paths)
    assert "sesame" not in socket_path("sesame", 0)


@pytest.mark.parametrize("length", [20, LONGEST_PATH - 25, LONGEST_PATH - 24, 300])
def test_a_socket_can_have_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, length: int) -> None:
    directory = "/" + "d" * (length - 1)
    monkeypatch.setattr(tempfile, "tempdir", directory)
    path = socket_path("token", 3)
    assert len(path) <= LONGEST_PATH
    with socket.socket(socket.AF_UNIX) as one, pytest.raises(FileNotFoundError):
        one.connect(path)
