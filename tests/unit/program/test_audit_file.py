from __future__ import annotations

import logging
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mm2.core.access.audit import AuditEntry, AuditOutcome, of_failed_logins
from mm2.core.access.failed_logins import FailedLoginReport
from mm2.core.masking import hide
from mm2.node.common import audit_log
from mm2.program.audit_file import AuditFile

ENTRY = AuditEntry(time_ms=0, node="n", what="pause", outcome=AuditOutcome.DONE)


@contextmanager
def opened(path: Path) -> Iterator[AuditFile]:
    file = AuditFile(path)
    file.open()
    try:
        yield file
    finally:
        file.close()


def test_lines_are_appended_to_a_closed_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text("earlier\n")
    path.unlink()
    with opened(path) as file:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        audit_log.write(ENTRY)
        assert path.read_text() == ENTRY.to_json() + "\n"
    with opened(path):
        audit_log.write(ENTRY)
    audit_log.write(ENTRY)
    assert path.read_text() == 2 * (ENTRY.to_json() + "\n")
    assert file.error is None


def test_file_is_opened_again_after_it_was_rotated(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with opened(path):
        audit_log.write(ENTRY)
        path.rename(tmp_path / "audit.log.1")
        audit_log.write(ENTRY)
    assert path.read_text() == (tmp_path / "audit.log.1").read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_file_that_cannot_be_written_is_reported_until_it_can(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "logs"
    with opened(directory / "audit.log") as file:
        audit_log.write(ENTRY)
        audit_log.write(ENTRY)
        assert file.error == f"mm2.audit.file: cannot write {directory}/audit.log: No such file or directory"
        errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
        assert errors == [f"{file.error}; audit records are in this log only"]
        directory.mkdir()
        audit_log.write(ENTRY)
        assert file.error is None
    assert (directory / "audit.log").read_text() == ENTRY.to_json() + "\n"


def test_lines_do_not_depend_on_the_log_level_and_show_no_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hide("sesame-of-the-audit-test")
    caplog.set_level(logging.ERROR)
    caplog.set_level(logging.ERROR, audit_log.NAME)
    caplog.handler.setLevel(logging.NOTSET)
    login = FailedLoginReport(address="10.0.0.7", detail="sesame-of-the-audit-test is wrong", name=None, count=1)
    with opened(tmp_path / "audit.log"):
        audit_log.write(ENTRY)
        audit_log.write(of_failed_logins(login, node="n", time_ms=0))
    assert [(one.name, one.levelname) for one in caplog.records] == [("mm2.audit", "INFO"), ("mm2.audit", "WARNING")]
    assert '"detail":"[hidden] is wrong"' in (tmp_path / "audit.log").read_text()
