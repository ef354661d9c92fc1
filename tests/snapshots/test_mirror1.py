"""The output of ``kafka-mirror-maker --check`` and ``mm2 migrate-mm1``.

``MM2_WRITE_SNAPSHOTS=1 pytest tests/snapshots/test_mirror1.py`` rewrites the snapshots; read them before you commit
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mm2.cli.commands import Program, execute, mirror1_app, mm2_app

FILES = Path(__file__).parent / "mirror1"
CHECKS: dict[str, tuple[int, tuple[str, ...]]] = {
    "kafka-0.7": (0, ("--num.producers", "2", "--queue.size", "2000")),
    "kafka-3.9": (0, ("--include", "orders.*,payments", "--num.streams", "4")),
    "wrong": (2, ("--include", "*", "--message.handler", "com.example.Handler")),
}


@pytest.fixture(autouse=True)
def in_example_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)


def output(app: Callable[[], Program], words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert execute(app(), words) == code
    text = capsys.readouterr().out
    assert "sesame" not in text
    return text


def compare(name: str, text: str) -> None:
    snapshot = FILES / f"{name}.txt"
    if os.environ.get("MM2_WRITE_SNAPSHOTS"):
        snapshot.write_text(text, "utf-8")
    assert text == snapshot.read_text("utf-8")


def options(name: str) -> list[str]:
    return ["--consumer.config", f"{name}-consumer.properties", "--producer.config", f"{name}-producer.properties"]


@pytest.mark.parametrize("name", CHECKS)
def test_check(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, more = CHECKS[name]
    compare(f"{name}-check", output(mirror1_app, [*options(name), *more, "--check"], code, capsys))


def test_migration(capsys: pytest.CaptureFixture[str]) -> None:
    _, more = CHECKS["kafka-3.9"]
    text = output(mm2_app, ["migrate-mm1", *options("kafka-3.9"), *more], 0, capsys)
    compare("kafka-3.9-migration", text.replace(str(FILES), "/etc/kafka"))
