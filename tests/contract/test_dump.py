"""``GET /node`` and ``mm2 dump``: what other programs rely on."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from dataclasses import asdict, replace
from pathlib import Path

import httpx
import pytest

from mm2.cli.dump import dump
from mm2.core.lanes.partition_steps import PartitionStory, StepReport
from mm2.core.naming.names import TopicPartition
from mm2.node.status.status_model import ClusterStatus, EngineStatus, LaneMemory
from tests.contract.nodes import LOG, rest_nodes
from tests.contract.samples import CERTIFICATE, flow, node, partition, topic
from tests.contract.test_status_command import mm2

PASSWORD = "swordfish-4711"
FILE = """\
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="mm2" password="{password}";
listeners = {listeners}
"""


def properties(directory: Path, listeners: str) -> Path:
    file = directory / "mm2.properties"
    file.write_text(FILE.format(password=PASSWORD, listeners=listeners))
    return file


def contents(archive: Path) -> dict[str, str]:
    found = {}
    with tarfile.open(archive) as opened:
        for member in opened.getmembers():
            file = opened.extractfile(member)
            assert file is not None
            found[member.name.removeprefix("mm2-dump/")] = file.read().decode()
    return found


async def test_node() -> None:
    async with rest_nodes(["one"]) as (one,), httpx.AsyncClient(trust_env=False) as client:
        answers = ClusterStatus(alias="A", reachable=True, since=1_000, answered=2_000, error=None)
        one.published = node(flow(), node_id="one", clusters=(answers,))
        shown = (await client.get(f"{one.server.url}/node")).json()
        assert (shown["node"], shown["version"], shown["flows"], shown["log"]) == ("one", "0.1.0", ["A->B"], [])
        assert (shown["started"], shown["file"]["path"]) == (1_700_000_000_000, "mm2.properties")
        assert shown["pid"] > 0
        assert shown["clusters"] == [
            {"alias": "A", "reachable": True, "since": 1_000, "answered": 2_000, "error": None}
        ]
        assert shown["engines"] == []
        memory = LaneMemory(lane=3, flow="A->B", query="mask", bytes=None)
        engine = EngineStatus(
            engine="queries", error="it is starting", spark_ui=None, pid=None, jvm_pid=None, memory_bytes=None
        )
        renewals = {"A": None, "B": "no answer"}
        details = {"certificates": (CERTIFICATE,), "renewals": renewals, "engines": (engine,), "lane_memory": (memory,)}
        one.published = node(flow(), node_id="one", **details)
        shown = (await client.get(f"{one.server.url}/node")).json()
        assert shown["certificates"] == [asdict(CERTIFICATE)]
        assert (shown["engines"], shown["lane_memory"]) == ([asdict(engine)], [asdict(memory)])
        assert shown["renewals"] == renewals
        lines = [(await client.get(f"{one.server.url}/node?log={number}")).json()["log"] for number in (1, 5)]
        assert lines == [[LOG[-1]], [*LOG]]
        assert (await client.get(f"{one.server.url}/node?log=-1")).status_code == 422


async def test_dump_of_a_running_node(tmp_path: Path) -> None:
    async with rest_nodes(["one"]) as (one,):
        failed = partition(1, node="one", error=f"wrong password {PASSWORD}", step="PAUSED")
        one.published = node(flow(topic("orders", partition(0, node="one", step="FETCHING"), failed)), node_id="one")
        one.stories[TopicPartition("orders", 1)] = PartitionStory(
            fetching=StepReport("PAUSED", 1.0, "no answer"), sending=StepReport("IDLE", 1.0)
        )
        file, archive = properties(tmp_path, one.server.url), tmp_path / "dump.tar.gz"
        code, out, err = await mm2("dump", str(file), "--to", str(archive))
        assert (code, err) == (0, "")
        found = contents(archive)
        assert out.startswith(f"{archive}: {', '.join(found)}\n")
        assert set(found) == {
            *("versions.txt", "problems.txt", "settings.txt", "health.json", "flows.json", "node.json", "metrics.txt"),
            "partitions/A,B/orders-1.json",
        }
        assert "A->B" in found["settings.txt"]
        assert json.loads(found["node.json"])["log"] == [*LOG]
        assert json.loads(found["partitions/A,B/orders-1.json"])["reason"] == "no answer"
        assert "mm2_task_state" in found["metrics.txt"]
        assert PASSWORD not in "".join(found.values())
        assert "wrong password [hidden]" in found["flows.json"]
        assert stat.S_IMODE(archive.stat().st_mode) == 0o600
        code, _, err = await mm2("dump", str(file), "--to", str(archive))
        assert (code, err) == (2, f"mm2 dump: {archive} exists: choose another name with --to\n")


async def test_every_partition_has_a_file_in_the_archive(tmp_path: Path) -> None:
    async with rest_nodes(["one"]) as (one,):
        paused = topic("orders", partition(0, step="PAUSED"))
        names = (("A-B", "C"), ("A", "B-C"), ("../../A", ".."))
        one.published = node(*(replace(flow(paused), source=source, target=target) for source, target in names))
        file, archive = properties(tmp_path, one.server.url), tmp_path / "dump.tar.gz"
        assert (await mm2("dump", str(file), "--to", str(archive)))[0] == 0
        found = [name for name in contents(archive) if name.startswith("partitions/")]
        assert found == [f"partitions/{name}/orders-0.json" for name in ("A-B,C", "A,B-C", "..%2F..%2FA,..")]


async def test_an_archive_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, archive = properties(tmp_path, "http://127.0.0.1:9"), tmp_path / "dump.tar.gz"
    modes = []

    def opened(path: str, flags: int, mode: int = 0o777) -> int:
        if str(path) == str(archive):
            modes.append(mode)
        return os_open(path, flags, mode)

    os_open = os.open
    monkeypatch.setattr(os, "open", opened)
    assert dump(file, to=str(archive)) == 0
    assert modes == [0o600]


async def test_passwords_of_a_file_with_errors(tmp_path: Path) -> None:
    """The node still runs with the file before the change."""
    async with rest_nodes(["one"]) as (one,):
        one.published = node(flow(topic("orders", partition(0, error=f"wrong password {PASSWORD}"))), node_id="one")
        file, archive = properties(tmp_path, one.server.url), tmp_path / "dump.tar.gz"
        file.write_text(f"{file.read_text()}tasks.max = many\n")
        assert (await mm2("dump", str(file), "--to", str(archive)))[0] == 0
        found = contents(archive)
        assert "tasks.max = many" in found["problems.txt"]
        assert "wrong password [hidden]" in found["flows.json"]
        assert PASSWORD not in "".join(found.values())


async def test_dump_without_a_node(tmp_path: Path) -> None:
    file, archive = properties(tmp_path, "http://127.0.0.1:9"), tmp_path / "dump.tar.gz"
    assert (await mm2("dump", str(file), "--to", str(archive)))[0] == 0
    found = contents(archive)
    assert set(found) == {"versions.txt", "problems.txt", "settings.txt", "node-error.txt"}
    assert "http://127.0.0.1:9 is not reachable" in found["node-error.txt"]


async def test_dump_of_a_file_with_errors(tmp_path: Path) -> None:
    file, archive = tmp_path / "mm2.properties", tmp_path / "dump.tar.gz"
    file.write_text("clusters = A, B\nA->B.enabled = true\n")
    assert (await mm2("dump", str(file), "--to", str(archive)))[0] == 0
    assert "A.bootstrap.servers" in contents(archive)["problems.txt"]
    code, _, err = await mm2("dump", str(tmp_path / "none"))
    assert (code, err) == (2, f"mm2 dump: {tmp_path / 'none'} is not a file\n")
    code, _, err = await mm2("dump", str(file), "--to", str(tmp_path / "none" / "x.tar.gz"))
    assert (code, err) == (1, f"mm2 dump: cannot write {tmp_path / 'none' / 'x.tar.gz'}: No such file or directory\n")
