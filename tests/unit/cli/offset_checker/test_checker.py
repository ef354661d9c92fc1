from __future__ import annotations

from pathlib import Path

import pytest

from mm2.cli.command_parser import parse
from mm2.cli.command_table import CHECKER_COMMAND
from mm2.cli.commands import checker_app, execute
from mm2.cli.offset_checker.checker import GroupOffsets, PartitionOffset, offset_lines, read_client_settings
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import SecurityProtocol

CLOSED = "127.0.0.1:1"


def row(
    number: int, offset: int | None, end: int | None, owner: str | None = None, leader: int | None = 1
) -> PartitionOffset:
    return PartitionOffset(
        partition=TopicPartition("orders", number), offset=offset, log_size=end, owner=owner, leader=leader
    )


def test_columns_of_the_old_program() -> None:
    rows = (
        row(0, 90, 100, "m1_/h1"),
        row(1, None, 100),
        row(2, 7, None),
        row(3, 7, 9, leader=None),
        row(10, 100, 100),
    )
    found = GroupOffsets(partitions=rows, brokers={1: "b1:9092", 3: "b3:9092"}, notes=())
    assert list(offset_lines("KafkaMirror", found, broker_info=True)) == [
        "Group           Topic                          Pid Offset          logSize         Lag             Owner",
        "KafkaMirror     orders                         0   90              100             10              m1_/h1",
        "KafkaMirror     orders                         1   unknown         100             unknown         none",
        "KafkaMirror     orders                         2   7               unknown         unknown         none",
        "No broker for partition orders - 3",
        "KafkaMirror     orders                         10  100             100             0               none",
        "BROKER INFO",
        "1 -> b1:9092",
        "3 -> b3:9092",
    ]
    assert "BROKER INFO" not in list(offset_lines("KafkaMirror", found))


@pytest.mark.parametrize("name", ["--zookeeper", "--zkconnect"])
def test_spellings_of_the_old_program(name: str) -> None:
    words = [*("--group", "g", name, "z:2181/kafka", "--topic", "a,b", "--broker-info")]
    words += ["--socket.timeout.ms=100", "--retry.backoff.ms", "5"]
    assert parse(CHECKER_COMMAND, words)[1] == {
        "group": "g",
        "zookeeper": "z:2181/kafka",
        "topic": "a,b",
        "broker_info": True,
        "socket_timeout_ms": "100",
        "retry_backoff_ms": "5",
    }


WRONG = {
    "no group": ([], "--group is missing. Usage: kafka-consumer-offset-checker --group G [--boot"),
    "empty group": (["--group", ""], "--group '': must be the name of a consumer group"),
    "both places": (["--group", "g", "--zookeeper", "z", "--bootstrap-server", "b:1"], "--bootstrap-server and --zook"),
    "unknown option": (["--group", "g", "--topics", "t"], "unknown option --topics. Did you mean --topic?"),
    "no server": (["--group", "g", "--bootstrap-server", "b1"], "--bootstrap-server b1: must be a comma-separated"),
    "no ZooKeeper": (["--group", "g", "--zookeeper", "z:x"], "--zookeeper z:x: must be host:port,host:port/path"),
    "timeout": (["--group", "g", "--socket.timeout.ms", "0"], "--socket.timeout.ms 0: must be a number of millisec"),
    "backoff": (["--group", "g", "--retry.backoff.ms", "1s"], "--retry.backoff.ms 1s: must be a number of millisec"),
    "no file": (["--group", "g", "--command-config", "nowhere"], "nowhere: error: does not exist"),
}


@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG)
def test_usage_errors_are_one_line_and_exit_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(checker_app(), words or ["--broker-info"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"kafka-consumer-offset-checker: {message}")
    assert output.err.count("\n") == 1


def test_without_arguments_it_prints_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(checker_app(), []) == 2
    assert capsys.readouterr().out.startswith("Usage: kafka-consumer-offset-checker --group G")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--bootstrap-server", f"{CLOSED}: connection refused"),
        ("--zookeeper", f"ZooKeeper {CLOSED} did not answer within 0.5 s: check --zookeeper"),
    ],
)
def test_servers_that_do_not_answer(option: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(checker_app(), ["--group", "g", option, CLOSED, "--socket.timeout.ms", "500"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"kafka-consumer-offset-checker: {message}")
    assert output.err.count("\n") == 1


def test_settings_of_the_command_line_and_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol = SSL\nretry.backoff.ms = 7\nbootstrap.servers = elsewhere:1\n")
    settings = read_client_settings(file, ("b1:9092",), timeout_ms=500, backoff_ms=3_000)
    assert settings.bootstrap_servers == ("b1:9092",)
    assert settings.security_protocol is SecurityProtocol.SSL
    assert (settings.client_id, settings.request_timeout_ms, settings.retry_backoff_ms) == (
        "ConsumerOffsetChecker",
        500,
        7,
    )
    without = read_client_settings(None, ("b1:9092",), timeout_ms=500, backoff_ms=3_000)
    assert (without.retry_backoff_ms, without.retry_backoff_max_ms) == (3_000, 3_000)


def test_invalid_file_is_reported_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# comment\nrequest.timeout.ms = soon\n")
    words = ["--group", "g", "--bootstrap-server", "b:1", "--command-config", str(file)]
    assert execute(checker_app(), words) == 2
    assert f"{file}:2: error: request.timeout.ms = soon" in capsys.readouterr().err
