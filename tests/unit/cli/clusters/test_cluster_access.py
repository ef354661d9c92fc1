from __future__ import annotations

import asyncio
import io
import socket
import sys
from pathlib import Path

import pytest

from mm2.cli.clusters.cluster_access import (
    ask,
    choose_flow,
    connection_error,
    read_settings,
    reason,
    short_timeout_cluster,
)
from mm2.cli.errors import UsageError
from mm2.core.settings.client import ClientSettings, SecurityProtocol
from mm2.core.settings.tls import TlsSettings
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
        ("A->B.enabled = true", "B->A", "B->A"),  # disabled, as during a failover
    ],
)
def test_selected_flow(tmp_path: Path, lines: str, name: str | None, chosen: str) -> None:
    settings = read_settings(file(tmp_path, f"{ADDRESSES}{lines}\n"))
    assert str(choose_flow(settings, name).flow) == chosen


@pytest.mark.parametrize(
    ("lines", "name", "message"),
    [
        ("A->B.enabled = true", "A->C", "no flow 'A->C' in the file. Enabled flows: A->B."),
        ("A->B.enabled = true\nB->A.enabled = true", None, "add --flow .* Enabled flows: A->B, B->A."),
        ("A->B.topics = x", None, "add --flow .* Enabled flows: none."),
    ],
)
def test_ambiguous_or_unknown_flow(tmp_path: Path, lines: str, name: str | None, message: str) -> None:
    settings = read_settings(file(tmp_path, f"{ADDRESSES}{lines}\n"))
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        choose_flow(settings, name)


def test_invalid_file_is_one_error_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_settings(file(tmp_path, "clusters = A, B\nA->B.enabled = true\nA->B.tasks.max = 0\n"))
    first, more = str(caught.value).split("; ")
    assert first.startswith(
        f"{tmp_path / 'mm2.properties'}:1: error: clusters = A, B: cluster A has no bootstrap.servers"
    )
    assert more == f"mm2 check {tmp_path / 'mm2.properties'} shows 2 more"


def test_client_timeouts_are_short_and_never_longer_than_configured() -> None:
    patient = ClientSettings(bootstrap_servers=("a:9092",))
    assert short_timeout_cluster(patient).settings.request_timeout_ms == 5_000
    hasty = ClientSettings(bootstrap_servers=("a:9092",), request_timeout_ms=1_000)
    assert short_timeout_cluster(hasty).settings.request_timeout_ms == 1_000


def test_cluster_name_is_not_repeated() -> None:
    assert reason("A", Unreachable("cluster A: a:9092: nothing listens there")) == "a:9092: nothing listens there"
    assert reason("A", RequestTimedOut("a:9092: no answer")) == "a:9092: no answer"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert ask(asyncio.sleep(0.2, "answer"), "asking A") == "answer"
    assert "asking A" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the line is erased


def test_progress_is_not_written_to_pipes(capsys: pytest.CaptureFixture[str]) -> None:
    ask(asyncio.sleep(0.1), "asking A")
    assert capsys.readouterr() == ("", "")


def test_certificates_that_cannot_be_used_are_a_mistake() -> None:
    async def opened() -> None:
        async with short_timeout_cluster(
            ClientSettings(
                bootstrap_servers=("a:9092",), security_protocol=SecurityProtocol.SSL, tls=TlsSettings(ca_pem="?")
            )
        ):
            pass

    with pytest.raises(UsageError, match="contains no certificate"):
        ask(opened(), "asking A")


async def test_a_cluster_that_does_not_answer_has_limited_time() -> None:
    """Each of the servers has the timeout of a request, and all of them together less than a user waits for."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        async with short_timeout_cluster(ClientSettings(alias="A", bootstrap_servers=(address,))) as cluster:
            error = await connection_error(cluster, within_s=0.2)
    assert str(error) == "cluster A did not answer within 0 s; check A.bootstrap.servers"
