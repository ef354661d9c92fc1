"""The errors and restarts of an engine that does not run; with real sockets of this machine."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from pathlib import Path

import pytest

from mm2.core.lanes.engine_orders import EXIT_JVM_LOST, EngineRole
from mm2.core.lanes.lease import LeaseEndpoint
from mm2.core.log_records import ATTRIBUTE
from mm2.core.masking import hide
from mm2.core.settings.spark_master import read_master
from mm2.node.engine.engine_process import (
    EngineProcess,
    failure_line,
    last_error,
    log_line,
    master_error,
    next_line,
)
from tests.lab.waiting import until

SECRET = "open-sesame-of-spark"


async def test_a_master_that_accepts_connections_is_no_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as other:
        up, down = listening.getsockname()[1], other.getsockname()[1]
        other.close()
        assert await master_error(read_master(f"spark://127.0.0.1:{down},127.0.0.1:{up}")) is None


async def test_all_unreachable_masters_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    message = await master_error(read_master(f"spark://127.0.0.1:{port},localhost:{port}"))
    assert message is not None
    assert f"cannot reach Spark master spark://127.0.0.1:{port},localhost:{port}" in message
    assert f"127.0.0.1:{port}:" in message
    assert f"localhost:{port}:" in message


async def test_other_kinds_of_masters_are_not_checked() -> None:
    assert await master_error(read_master("yarn")) is None


def test_the_line_that_explains_why_an_engine_exited() -> None:
    java = 'Exception in thread "main" org.apache.spark.SparkException: set HADOOP_CONF_DIR'
    own = "ERROR mm2.engine the engine failed: it did not start"
    others = ["java.io.IOException: first", "Caused by: java.net.ConnectException: Connection refused", "\tat Net.java"]
    assert failure_line([java, own, *others]) == f": {java}"
    assert failure_line([own, *others]) == f": {own}"
    assert failure_line([": org.apache.spark.SparkException: no"]) == ": org.apache.spark.SparkException: no"
    assert failure_line(others) == ": Caused by: java.net.ConnectException: Connection refused"
    assert failure_line(["nothing of use"]) == ""


def test_the_last_error_of_an_engine_says_why_its_jvm_has_ended() -> None:
    lines = ["ERROR mm2.engine first", "ERROR mm2.engine Java ran out of memory", "INFO mm2.engine later", "Error"]
    assert last_error(lines) == "Java ran out of memory"
    assert last_error(lines[2:]) is None
    assert last_error(["Exception in thread lane-0ERROR mm2.engine Java exited with code 1"]) == (
        "Java exited with code 1"
    )


@pytest.mark.parametrize(
    ("line", "level", "logger", "message"),
    [
        ("ERROR mm2.engine the engine failed", logging.WARNING, "mm2.engine", "the engine failed"),
        (
            "INFO mm2.kafka.sockets cluster A: 1",
            logging.INFO,
            "mm2.kafka.sockets",
            "cluster A: 1",
        ),
        ("DEBUG flows.source.fetcher orders-0: 5", logging.DEBUG, "flows.source.fetcher", "orders-0: 5"),
        ("WARNING aiokafka.conn x", logging.DEBUG, "mm2.engine", "WARNING aiokafka.conn x"),
        ("26/11/23 WARN TaskSetManager: lost", logging.DEBUG, "mm2.engine", "26/11/23 WARN TaskSetManager: lost"),
    ],
)
def test_how_the_node_logs_a_line_of_an_engine(
    line: str, level: int, logger: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in (logger, "mm2.engine"):
        caplog.set_level(logging.DEBUG, name)
    log_line(line, EngineRole.MAIN)
    log_line(line, EngineRole.QUERIES)
    assert caplog.record_tuples == [(logger, level, message), (logger, level, f"queries: {message}")]


def test_a_line_of_a_lane_keeps_what_it_is_about(caplog: pytest.LogCaptureFixture) -> None:
    fields = '{"flow":"A->B","topic":"orders","partition":3,"lane":1,"user":"x"}'
    log_line(f"WARNING flows.target.producer {fields} not acknowledged", EngineRole.MAIN)
    (record,) = caplog.records
    assert record.getMessage() == "not acknowledged"
    about = {"flow": "A->B", "topic": "orders", "partition": 3, "lane": 1}
    assert getattr(record, ATTRIBUTE) == about


async def test_a_line_that_is_too_long_does_not_end_the_engine() -> None:
    stream = asyncio.StreamReader(limit=100)
    stream.feed_data(b"before\n" + b"x" * 1_000)
    stream.feed_data(b"\nafter\n")
    stream.feed_eof()
    lines = []
    while line := await next_line(stream):
        lines.append(line)
    assert (lines[0], lines[-1]) == (b"before\n", b"after\n")


async def test_a_failed_start_of_the_engine_is_retried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As without memory for another process; here its Python does not exist."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    lost: list[str | None] = []
    engine = EngineProcess(
        node_url="http://127.0.0.1:1",
        token="secret",
        app_name="mm2",
        leases=LeaseEndpoint(url="http://127.0.0.1:1"),
        spark={"spark.master": "local[1]"},
        temp_dir=tmp_path,
        on_lost=lambda _: lost.append(engine.last_error),
    )
    running = asyncio.create_task(engine.run())
    try:
        await until(lambda: len(lost) > 1, 60.0, "it is retried")
        assert not running.done()
        assert lost[0] is not None
        assert lost[0].startswith("cannot start the Spark engine: ")
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_restart_of_the_engine_applies_new_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The process is a stand-in that shows its first line of input and ends with it, as the engine does."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nread -r line; echo "$line" >> "${0%/*}/lines"; cat > /dev/null\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    lines = tmp_path / "lines"
    lost: list[str | None] = []
    engine = EngineProcess(
        node_url="http://127.0.0.1:1",
        token="secret",
        app_name="mm2",
        leases=LeaseEndpoint(url="http://127.0.0.1:1"),
        spark={"spark.master": "local[1]"},
        temp_dir=tmp_path,
        on_lost=lambda _: lost.append(engine.last_error),
    )
    running = asyncio.create_task(engine.run())
    try:
        await until(lambda: lines.exists() and "local[1]" in lines.read_text(), 60.0, "it runs")
        await engine.restart({"spark.master": "local[3]"})
        await until(lambda: "local[3]" in lines.read_text(), 60.0, "it runs with the new settings")
        assert len(lost) == 1, "lanes are restarted once, without a backoff"
        await engine.close()
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_messages_name_the_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The process is a stand-in that shows its arguments and a secret, and whose JVM has ended."""
    hide(SECRET)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nread -r line; echo "ERROR mm2.engine Java ended: $* {SECRET}"; exit {EXIT_JVM_LOST}\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    deaths: list[str | None] = []
    engine = EngineProcess(
        node_url="http://127.0.0.1:1",
        token="secret",
        app_name="mm2",
        leases=LeaseEndpoint(url="http://127.0.0.1:1"),
        spark={"spark.master": "local[1]"},
        temp_dir=tmp_path,
        on_lost=deaths.append,
        role=EngineRole.QUERIES,
    )
    assert engine.last_error == "the Spark engine for queries is starting"
    running = asyncio.create_task(engine.run())
    try:
        await until(lambda: deaths, 60.0, "it has exited")
        assert deaths[0] == "Java ended: -m flows.engine queries [hidden]"
        error = "ERROR mm2.engine Java ended: -m flows.engine queries [hidden]"
        assert engine.last_error == f"the Spark engine for queries exited with code 3: {error}"
        shown = error.removeprefix("ERROR mm2.engine ").replace("[hidden]", SECRET)
        assert f"queries: {shown}" in caplog.messages, "the log masks it itself"
        assert f"{engine.last_error}; retrying in 1 s" in caplog.messages
    finally:
        running.cancel()
        await asyncio.wait([running])
