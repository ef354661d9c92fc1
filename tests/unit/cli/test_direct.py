from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path

import pytest

from mm2.cli import direct
from mm2.cli.direct import ask, choose_flow, impatient, read_settings, reason
from mm2.cli.trouble import UsageError
from mm2.core.client_settings import ClientSettings
from mm2.kafka.errors import RequestTimedOut, Unreachable

ADDRESSES = "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n"


def file(directory: Path, lines: str) -> Path:
    path = directory / "mm2.properties"
    path.write_text(lines)
    return path


@pytest.mark.parametrize(
    ("lines", "name", "chosen"),
    [
        ("A->B.enabled = true", None, "A->B"),
        ("A->B.enabled = true", "A -> B", "A->B"),
        ("A->B.enabled = true\nB->A.enabled = true", "B->A", "B->A"),
        ("A->B.enabled = true", "B->A", "B->A"),  # switched off, as people do at a failover
    ],
)
def test_which_flow(tmp_path: Path, lines: str, name: str | None, chosen: str) -> None:
    settings = read_settings(file(tmp_path, f"{ADDRESSES}{lines}\n"))
    assert str(choose_flow(settings, name).flow) == chosen


@pytest.mark.parametrize(
    ("lines", "name", "sentence"),
    [
        ("A->B.enabled = true", "A->C", "the file has no flow 'A->C'. Enabled are A->B."),
        ("A->B.enabled = true\nB->A.enabled = true", None, "which flow? .* Enabled are A->B, B->A."),
        ("A->B.topics = x", None, "which flow? .* Enabled are none."),
    ],
)
def test_a_flow_that_is_not_clear(tmp_path: Path, lines: str, name: str | None, sentence: str) -> None:
    settings = read_settings(file(tmp_path, f"{ADDRESSES}{lines}\n"))
    with pytest.raises(UsageError, match=sentence.replace("?", r"\?")):
        choose_flow(settings, name)


def test_a_file_with_mistakes_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as told:
        read_settings(file(tmp_path, "clusters = A, B\nA->B.enabled = true\nA->B.tasks.max = 0\n"))
    first, more = str(told.value).split(" (and ")
    assert first.startswith(f"{tmp_path / 'mm2.properties'}:1 clusters = A, B  A has no bootstrap.servers")
    assert more == f"2 more: mm2 check {tmp_path / 'mm2.properties'} tells them all)"


def test_clients_give_up_soon_but_never_later_than_the_file_says() -> None:
    patient = ClientSettings(bootstrap_servers=("a:9092",))
    assert impatient(patient).settings.request_timeout_ms == 5_000
    hasty = ClientSettings(bootstrap_servers=("a:9092",), request_timeout_ms=1_000)
    assert impatient(hasty).settings.request_timeout_ms == 1_000


def test_a_cluster_is_named_once() -> None:
    assert reason("A", Unreachable("cluster A: a:9092: nothing listens there")) == "a:9092: nothing listens there"
    assert reason("A", RequestTimedOut("a:9092: no answer")) == "a:9092: no answer"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "told"), [(0.0, False), (0.3, True)])
def test_who_waits_at_a_terminal_is_told(monkeypatch: pytest.MonkeyPatch, seconds: float, told: bool) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(direct, "SILENT_FOR_S", 0.02)
    ask(asyncio.sleep(seconds), "asking A")
    assert ("\rasking A, 0 s" in terminal.getvalue()) == told
    assert not terminal.getvalue() or terminal.getvalue().endswith("\r\x1b[K")


def test_pipes_stay_clean(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(direct, "SILENT_FOR_S", 0.01)
    ask(asyncio.sleep(0.1), "asking A")
    assert capsys.readouterr() == ("", "")
