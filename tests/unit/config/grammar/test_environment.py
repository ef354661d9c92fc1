from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.grammar.environment import Environment


def test_kafkas_own_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    monkeypatch.setenv("LOG_DIR", "/var/log/mm2")
    assert Environment() == Environment(JAVA_HOME=Path("/opt/java"), LOG_DIR=Path("/var/log/mm2"))


def test_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("LOG_DIR", raising=False)
    assert (Environment().java_home, Environment().log_dir) == (None, None)
