"""What other users of the node's machine can learn: from Spark's ports, command lines, and environments.

No test needs a broker: lanes run, and the clusters are unreachable.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from mm2.core.lanes.engine_orders import EngineRole
from mm2.core.lanes.lease import LeaseRefusedError, LeaseRequest
from mm2.mirror1.engine import MirrorEngine
from mm2.node.engine.lane_board import LaneBoard
from tests.lab.lanes import lanes
from tests.lab.node import Node
from tests.lab.spark_blocks import read_as_nobody
from tests.lab.waiting import until, wait_until

STARTS = 120.0  # seconds until a lane runs: seven on an idle machine


def shown_by(processes: Iterable[psutil.Process], secrets: Iterable[str]) -> list[str]:
    """Return where the secrets are in the command lines and environments of processes."""
    found = []
    for process in processes:
        environment = [f"{name}={value}" for name, value in process.environ().items()]
        for text in (*process.cmdline(), *environment):
            found += [f"{process.name()}: {text}" for secret in secrets if secret in text]
    return found


def token_of(board: LaneBoard) -> str:
    (start,) = board.engine_orders(0.0).lanes
    return start.token


async def read_tasks(board: LaneBoard) -> list[bytes]:
    """Return the blocks that another user reads from Spark's JVM while lane 0 runs."""
    await until(lambda: board.alive, STARTS, "lane 0 runs")
    jvm_pid = board.engines[EngineRole.MAIN].jvm_pid
    assert jvm_pid is not None
    return await read_as_nobody(jvm_pid)


@pytest.mark.needs("root")
async def test_another_user_reads_no_task_of_a_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor secrets of the process family of kafka-mirror-maker."""
    monkeypatch.setenv("ACME_PASSWORD", "planted-in-environment")
    spark = {
        "spark.hadoop.acme": "planted-by-provider",
        "spark.driver.extraJavaOptions": "-Dacme.key=planted-in-options",
    }
    async with MirrorEngine(
        lanes=1, buffer_bytes=1 << 20, spark=spark, hidden_spark=spark.keys(), name="guarded"
    ) as engine:
        board = engine.leases.board
        assert await read_tasks(board) == []  # that it can read: tests/integration/sql/test_spark_blocks.py
        assert board.alive, "its lane was not disturbed"
        root = psutil.Process(board.engines[EngineRole.MAIN].pid)
        family = [root, *root.children(recursive=True)]
        # Spark's launcher script becomes the JVM, and sometimes leaves it a zombie of its own.
        family = [one for one in family if one.status() != psutil.STATUS_ZOMBIE]
        assert len(family) >= 4, "engine, JVM, daemon and lane"
        secrets = ("planted", token_of(board), engine.leases.engine_tokens[EngineRole.MAIN])
        assert shown_by(family, secrets) == []


@pytest.mark.long  # the test above
@pytest.mark.needs("root")
async def test_a_token_that_another_user_has_read_is_worth_nothing() -> None:
    """Without Spark's authentication, which a file cannot switch off, the task of the lane is readable."""
    spark = {"spark.authenticate": "false", "spark.broadcast.compress": "false"}
    async with MirrorEngine(lanes=1, buffer_bytes=1 << 20, spark=spark, name="open") as engine:
        board = engine.leases.board
        found = await read_tasks(board)
        token = token_of(board)
        assert any(token.encode() in block for block in found), "the reader finds what is not protected"
        with pytest.raises(LeaseRefusedError):
            board.grant(0, LeaseRequest(token=token, nonce="mine"), 0.0)
        assert board.alive


def test_no_process_of_a_node_shows_a_secret(tmp_path: Path) -> None:
    """Those of the file, of config providers and of the environment."""
    log = tmp_path / "with space" / "gc.log"
    log.parent.mkdir()
    password = "planted-password"
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{password}";'
    properties = {
        "clusters": "A, B",
        "bootstrap.servers": "127.0.0.1:1",
        "A->B.enabled": "true",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login,
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "mm2.rest.admin": "true",
        "mm2.rest.admin.token": "${env:ACME_TOKEN}",
        "mm2.engine.environment": "ACME_WANTED",
        "mm2.lanes": "1",
        "spark.hadoop.acme": "${env:ACME_TOKEN}",
        "spark.authenticate.secret": "planted-spark-secret",
        "spark.driver.extraJavaOptions": f'-Dacme=${{env:ACME_TOKEN}} -Dmine.key=planted-option "-Xlog:gc:file={log}"',
    }
    (tmp_path / "temporary").mkdir()
    environment = {
        "TMPDIR": str(tmp_path / "temporary"),
        "ACME_TOKEN": "planted-token-of-16-and-more",
        "ACME_OTHER": "planted-other",
        "ACME_WANTED": "wanted",
        "KAFKA_OPTS": "-Dacme.password=planted-in-kafka-opts",
    }
    with Node(properties, name="secretive-node", env=environment) as node:
        wait_until(lambda: lanes(node), STARTS, "a lane runs")
        family = [one for one in node.family() if one.pid != node.process.pid]
        assert {role for role in ("engine", "jvm", "worker") if node.members(role)} == {"engine", "jvm", "worker"}
        assert shown_by(family, ["planted"]) == []
        assert all(one.environ()["ACME_WANTED"] == "wanted" for one in family)
        assert log.exists(), "options of Java have an effect, also with spaces"
        # Nor does a killed one leave its files: the next one removes them.
        directories = [tmp_path / "temporary" / name for name in os.listdir(tmp_path / "temporary")]
        assert [one.name[: len("mm2-node-")] for one in directories] == ["mm2-node-"]
        for one in (psutil.Process(node.process.pid), *node.members("jvm"), *node.members("engine")):
            one.kill()  # of the node alone, Spark's JVM would notice it, and clean up
        wait_until(lambda: not node.family(), STARTS, "nothing of the node runs")
        assert list(directories[0].glob("blockmgr-*")), "Spark's files are there"
        node.rewrite(properties | {"A->B.enabled": "false"})  # so that no Spark starts
        node.start()
        said = f"removed temporary directories of killed processes in {tmp_path}/temporary: {directories[0].name}"
        node.process.wait_until_output(said, STARTS, "it says so")
        assert not directories[0].exists()
        node.wait_answering()
        assert node.stop() == 0
        assert os.listdir(tmp_path / "temporary") == []
