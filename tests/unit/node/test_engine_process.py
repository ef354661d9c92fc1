"""What the node says of an engine that does not run; the sockets are this machine's own."""

from __future__ import annotations

import socket

from mm2.core.spark_master import read_master
from mm2.node.engine_process import last_word, master_trouble


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
