"""What the node says of an engine that does not run, and that it goes on trying; the sockets are this machine's own."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from mm2.core.lease import LeasePlace
from mm2.core.spark_master import read_master
from mm2.node.engine_process import EngineProcess, last_word, master_trouble, next_line
from tests.lab.waiting import until


async def test_a_master_that_accepts_connections_is_no_trouble() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as other:
        up, down = listening.getsockname()[1], other.getsockname()[1]
        other.close()
        assert await master_trouble(read_master(f"spark://127.0.0.1:{down},127.0.0.1:{up}")) is None


async def test_masters_that_are_away_are_all_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    sentence = await master_trouble(read_master(f"spark://127.0.0.1:{port},localhost:{port}"))
    assert sentence is not None
    assert f"Spark master spark://127.0.0.1:{port},localhost:{port} cannot be reached" in sentence
    assert f"127.0.0.1:{port}:" in sentence
    assert f"localhost:{port}:" in sentence


async def test_other_masters_are_sparks_own_business() -> None:
    assert await master_trouble(read_master("yarn")) is None


def test_the_line_that_says_why_an_engine_ended() -> None:
    java = 'Exception in thread "main" org.apache.spark.SparkException: set HADOOP_CONF_DIR'
    own = "ERROR mm2.engine the engine stops: it did not start"
    others = ["java.io.IOException: first", "Caused by: java.net.ConnectException: Connection refused", "\tat Net.java"]
    assert last_word([java, own, *others]) == f": {java}"
    assert last_word([own, *others]) == f": {own}"
    assert last_word(others) == ": Caused by: java.net.ConnectException: Connection refused"
    assert last_word(["nothing of use"]) == ""


async def test_a_line_that_is_too_long_ends_nothing() -> None:
    stream = asyncio.StreamReader(limit=100)
    stream.feed_data(b"before\n" + b"x" * 1_000)
    stream.feed_data(b"\nafter\n")
    stream.feed_eof()
    lines = []
    while line := await next_line(stream):
        lines.append(line)
    assert (lines[0], lines[-1]) == (b"before\n", b"after\n")


async def test_an_engine_that_the_system_cannot_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As while there is no memory for another process: here its Python is not there."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    lost: list[str | None] = []
    engine = EngineProcess(
        node_url="http://127.0.0.1:1",
        token="secret",
        app_name="mm2",
        leases=LeasePlace(url="http://127.0.0.1:1"),
        spark={"spark.master": "local[1]"},
        temp_dir=tmp_path,
        on_lost=lambda: lost.append(engine.trouble),
    )
    running = asyncio.create_task(engine.run())
    try:
        await until(lambda: len(lost) > 1, 60.0, "it is tried again")
        assert not running.done()
        assert lost[0] is not None
        assert lost[0].startswith("the Spark engine cannot be started: ")
    finally:
        running.cancel()
        await asyncio.wait([running])
