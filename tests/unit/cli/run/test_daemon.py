from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mm2.cli.errors import CommandError
from mm2.cli.run.run import detach, log_file
from mm2.config.grammar.environment import Environment
from tests.lab.waiting import wait_until

PROGRAM = """
import os, sys, time
from pathlib import Path
from mm2.cli.run.run import detach

pid = detach(Path(sys.argv[1]))
if pid is not None:
    print(pid)
    sys.exit(0)
print(os.getsid(0), os.getpid(), os.getcwd(), sys.stdin.read() == "", flush=True)
print("to stderr", file=sys.stderr, flush=True)
time.sleep(60)
"""


def test_log_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOG_DIR", raising=False)
    assert log_file(tmp_path, Environment()) == tmp_path / "mirrorMaker.out"
    monkeypatch.setenv("LOG_DIR", "/var/log/mm2")
    assert log_file(tmp_path, Environment()) == Path("/var/log/mm2/mirrorMaker.out")


def test_daemon_is_detached_from_terminal_and_caller(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "mirrorMaker.out"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, log], capture_output=True, text=True, timeout=30, check=True, cwd=tmp_path
    )
    assert time.monotonic() - began < 20  # the caller did not wait for the daemon, whose pipes are closed
    pid = int(done.stdout)
    try:
        wait_until(lambda: log.read_text().count("\n") == 2, 10, "the daemon writes to its log")
        first, second = log.read_text().splitlines()
        session, logged_pid, directory, no_input = first.split()
        assert (int(logged_pid), directory, no_input) == (pid, str(tmp_path), "True")
        assert int(session) not in (pid, os.getsid(0))
        assert second == "to stderr"
        assert log.stat().st_mode & 0o007 == 0
    finally:
        os.kill(pid, signal.SIGKILL)


def test_unwritable_log_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="Set LOG_DIR to a writable directory"):
        detach(tmp_path / "file" / "mirrorMaker.out")
