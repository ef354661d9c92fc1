"""``kafka-mirror-maker`` up to the start of the mirror."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from mm2.cli.commands import execute, mirror1_app
from mm2.core.mirror1.settings import MirrorSettings, Partitioning

FILES = ("--consumer.config", "c.properties", "--producer.config", "p.properties")


@pytest.fixture(autouse=True)
def in_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.properties").write_text("bootstrap.servers=127.0.0.1:1\ngroup.id=mirror\n")
    Path("p.properties").write_text("bootstrap.servers=127.0.0.1:2\n")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[MirrorSettings]:
    """The settings with which the process was started; its exit code is 7."""
    found: list[MirrorSettings] = []
    module = ModuleType("mm2.mirror1.process")

    def run(settings: MirrorSettings) -> int:
        found.append(settings)
        return 7

    module.run = run  # type: ignore[attr-defined]
    package = ModuleType("mm2.mirror1")
    package.process = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mm2.mirror1", package)
    monkeypatch.setitem(sys.modules, "mm2.mirror1.process", module)
    return found


USAGE_ERRORS = {
    ("--include", "a"): "--consumer.config is missing: give the file of the consumer.",
    ("--consumer.config", "c.properties"): "--producer.config is missing: give the file of the producer.",
    (*FILES, "--num.streams", "0"): "--num.streams 0: must be a whole number of at least 1.",
    (*FILES, "--num.streams", "many"): "--num.streams many: must be a whole number of at least 1.",
    (*FILES, "--offset.commit.interval.ms", "-1"): "--offset.commit.interval.ms -1: must be a whole number of at least",
    (*FILES, "--abort.on.send.failure", "yes"): "--abort.on.send.failure yes: must be true or false.",
    (*FILES, "--partitions", "none"): "--partitions none: must be same or key.",
    (*FILES, "--incluude", "a"): "unknown option --incluude. Did you mean --include? Usage: kafka-mirror-maker OPTIONS",
    (*FILES, "--include", "a", "--include", "b"): "--include is given more than once.",
    (*FILES, "--rebalance.listener", "a:B", "--consumer.rebalance.listener", "a:B"): "--rebalance.listener and",
    ("topics",): "unexpected argument 'topics'.",
}


@pytest.mark.parametrize(("words", "message"), USAGE_ERRORS.items(), ids=" ".join)
def test_usage_errors_are_one_line_and_exit_2(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(mirror1_app(), words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"kafka-mirror-maker: {message}")
    assert output.err.count("\n") == 1


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mirror1_app(), [*FILES, "--include", "a,b", "--check"]) == 0
    output = capsys.readouterr()
    assert output.out == "ok: topics a|b; group mirror at 127.0.0.1:1 -> 127.0.0.1:2\n"
    assert output.err == ""


def test_check_of_files_with_errors(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.properties").write_text("bootstrap.servers=127.0.0.1:1\nfetch.size=1\n")
    assert execute(mirror1_app(), [*FILES, "--blacklist", "x", "--check"]) == 2
    assert capsys.readouterr().out == (
        "c.properties: error: group.id: missing\n"
        "    fix: add group.id, the name of the consumer group\n"
        "c.properties:2: warning: fetch.size = 1: old name of max.partition.fetch.bytes\n"
        "    fix: write max.partition.fetch.bytes = 1\n"
        "kafka-mirror-maker: 1 error, 1 warning\n"
    )


def test_check_does_not_ask_zookeeper(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.properties").write_text("zookeeper.connect=127.0.0.1:1\ngroup.id=mirror\n")
    assert execute(mirror1_app(), [*FILES, "--blacklist", "x", "--check"]) == 0
    assert "ok: all topics but x; group mirror at brokers in ZooKeeper" in capsys.readouterr().out


def test_errors_are_printed_to_stderr_and_nothing_starts(
    capsys: pytest.CaptureFixture[str], started: list[MirrorSettings]
) -> None:
    assert execute(mirror1_app(), [*FILES, "--include", "*"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "kafka-mirror-maker: error: --include: is not a valid Java regular expression" in output.err
    assert started == []


def test_run(started: list[MirrorSettings], capsys: pytest.CaptureFixture[str]) -> None:
    words = [*FILES, "--include", "a", "--whitelist", "b", "--num.streams", "3", "--num.producers=2", "--queue.size=9"]
    words += ["--offset.commit.interval.ms", "100", "--abort.on.send.failure", "FALSE", "--partitions", "key"]
    assert execute(mirror1_app(), words) == 7
    (settings,) = started
    assert (settings.include, settings.exclude, settings.streams) == ("a", None, 3)
    assert (settings.commit_interval_ms, settings.abort_on_send_failure) == (100, False)
    assert settings.partitions is Partitioning.KEY
    output = capsys.readouterr()
    assert output.out == ""
    warned = [line.split(": ")[2] for line in output.err.splitlines() if "warning" in line]
    assert warned == ["--num.producers", "--queue.size", "--whitelist"]


def test_whitelist_and_blacklist(started: list[MirrorSettings]) -> None:
    assert execute(mirror1_app(), [*FILES, "--whitelist", "b"]) == 7
    assert execute(mirror1_app(), [*FILES, "--blacklist", "b", "--new.consumer", "--new.producer"]) == 7
    assert [(one.include, one.exclude) for one in started] == [("b", None), (None, "b")]


@pytest.mark.parametrize(("words", "expected"), [([], 60_000), (["--offset.commit.interval.ms", "0"], 0)])
def test_commit_interval(words: list[str], expected: int, started: list[MirrorSettings]) -> None:
    assert execute(mirror1_app(), [*FILES, "--include", "a", *words]) == 7
    assert started[0].commit_interval_ms == expected


def test_several_consumers(started: list[MirrorSettings]) -> None:
    Path("d.properties").write_text("bootstrap.servers=127.0.0.1:3\ngroup.id=mirror\n")
    assert execute(mirror1_app(), [*FILES, "--consumer.config=d.properties", "--include", "a"]) == 7
    assert [one.file for one in started[0].consumers] == ["c.properties", "d.properties"]


def test_version_needs_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mirror1_app(), ["--version"]) == 0
    assert capsys.readouterr().out.startswith("mm2 0.")
