"""``mm2 translate`` on real clusters, with the state of a flow that `Stage` writes; no node runs."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mm2.cli.commands import execute, mm2_app
from mm2.client import (
    AsyncPositionClient,
    Position,
    PositionAnswers,
    PositionClient,
    PositionRejectedError,
    Precision,
)
from mm2.config.load import load
from mm2.node.checkpoint.position_service import PositionService
from tests.integration.failover_stage import Stage, commit
from tests.lab import topic_configs
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.records import Outgoing, write
from tests.lab.waiting import require_within, until, wait_until

HOUR_AGO = int(time.time()) * 1_000 - 3_600_000  # epoch ms of the first record of ``timed``; one a second


@pytest.fixture(scope="module")
def groups() -> dict[str, str]:
    """Group names unique to this run."""
    return {stem: unique_name(stem) for stem in ("reader", "behind", "caught,up", "excluded")}


@pytest.fixture(scope="module")
def stage(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path_factory: pytest.TempPathFactory, groups: dict[str, str]
) -> Stage:
    """For ``orders``-0 the exact map maps 100-1,099 to 40-1,039, for ``timed`` 3-9 to 0-6. ``orders``-1 has only an
    offset sync, ``orders``-2 nothing. The last record of ``orders``-0 on both clusters is not in the map."""
    aliases = unique_name("A"), unique_name("B")
    made = Stage(tmp_path_factory.mktemp("translate"), source=cluster_a, target=cluster_b, aliases=aliases)
    made.create_internal()
    made.create("orders", partitions=3)
    made.create("timed")
    cluster_a.create_topic(unique_name("hidden"))
    made.copied("orders", 100, 40, 1_000)
    made.sync("orders", 2_000, 1_900, partition=1)
    for cluster, topic, counts in (
        (cluster_a, made.source_partition("orders").topic, (1_101, 2_100, 10)),
        (cluster_b, made.remote_partition("orders").topic, (1_041, 1_950, 10)),
    ):
        for number, count in enumerate(counts):
            write(cluster.bootstrap, topic, [Outgoing(value=b"v", partition=number)] * count)
    records = [Outgoing(value=b"v", timestamp_ms=HOUR_AGO + 1_000 * number) for number in range(10)]
    write(cluster_a.bootstrap, made.source_partition("timed").topic, records)
    write(cluster_b.bootstrap, made.remote_partition("timed").topic, records[3:])
    made.copied("timed", 3, 0, 7)
    orders, second = made.source_partition("orders"), made.source_partition("orders", 1)
    for name, offsets, at in (
        ("reader", {orders: 777, second: 2_050}, 700),
        ("behind", {second: 1_999}, 0),
        ("caught,up", {orders: 1_100}, 1_100),
        ("excluded", {orders: 150}, 150),
    ):
        commit(cluster_a, groups[name], offsets)
        if at:
            made.checkpoint(groups[name], "orders", at, at - 60)
    made.checkpoint(groups["behind"], "orders", 1_500, 1_450, partition=1)
    made.properties[f"{made.name}.groups.exclude"] = groups["excluded"]
    return made


@pytest.fixture
def mm2(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process: starting Python takes longer than querying two clusters."""

    def call(*words: str) -> tuple[int, str, str]:
        code = execute(mm2_app(), ["translate", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address on which no server listens."""
    port = reserve_port()
    yield f"{HOST}:{port}"
    release_port(port)


def at(stage: Stage, topic: str, partition: int, **more: object) -> list[str]:
    words = ["--topic", topic, "--partition", str(partition)]
    return [stage.file(), *words, *(word for name, value in more.items() for word in (f"--{name}", str(value)))]


def test_one_position(stage: Stage, mm2: Any) -> None:
    topic, remote = stage.source_partition("orders").topic, stage.remote_partition("orders").topic
    assert mm2(*at(stage, topic, 0, offset=777)) == (0, f"{remote}:0:717\n", "")
    code, out, err = mm2(*at(stage, topic, 0, offset=777), "--flow", stage.name, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == [
        {
            "topic": topic,
            "partition": 0,
            "offset": 777,
            "remote_topic": remote,
            "remote_partition": 0,
            "remote_offset": 717,
            "precision": "exact",
            "reason": "",
            "read_again": 0,
            "missing": None,
        }
    ]
    code, out, err = mm2(*at(stage, topic, 1, offset=2_050))
    assert (code, out) == (3, f"{remote}:1:1901\n")
    assert err.startswith(f"{topic}:1:2050: conservative {remote}:1:1901 (")
    assert err.endswith("; at most 49 are read again)\n")
    code, out, err = mm2(*at(stage, topic, 2, offset=5))  # nothing is known: the beginning misses nothing
    assert (code, out) == (3, f"{remote}:2:0\n")
    assert err.startswith(f"{topic}:2:5: conservative {remote}:2:0 (the map does not have the partition; ")


def test_each_precision_in_both_directions(stage: Stage, mm2: Any, tmp_path: Path) -> None:
    """What is behind the map is not copied yet, as far as it is known."""
    topic, remote = stage.source_partition("orders").topic, stage.remote_partition("orders").topic
    file = tmp_path / "positions"
    file.write_text("".join(f"{topic}:0:{offset}\n" for offset in (100, 1_099, 1_100, 1_101, 50)))
    code, out, _ = mm2(stage.file(), "--positions", str(file), "--json")
    assert code == 3
    assert [(one["remote_offset"], one["precision"], one["missing"]) for one in json.loads(out)] == [
        (40, "exact", None),
        (1_039, "exact", None),
        (1_040, "end", None),
        (1_040, "ahead", 1),
        (0, "conservative", None),
    ]
    file.write_text("".join(f"{remote}:0:{offset}\n" for offset in (40, 1_039, 1_040)))
    code, out, err = mm2(stage.file(), "--positions", str(file), "--reverse", "--json")
    rows = json.loads(out)
    assert [(one["source_topic"], one["source_partition"]) for one in rows] == [(topic, 0)] * 3
    assert [(one["remote_offset"], one["source_offset"], one["precision"]) for one in rows] == [
        (40, 100, "exact"),
        (1_039, 1_099, "exact"),
        (1_040, 1_100, "end"),
    ]
    assert (code, err) == (3, "")
    assert mm2(*at(stage, remote, 0, offset=717), "--reverse") == (0, f"{topic}:0:777\n", "")
    code, out, err = mm2(*at(stage, topic, 0, offset=717), "--reverse")
    assert (code, out) == (2, "")
    assert f"{topic} is not a remote topic of {stage.name}" in err


def test_each_form(stage: Stage, mm2: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, remote = stage.source_partition("orders").topic, stage.remote_partition("orders").topic
    file = tmp_path / "positions"
    for given, expected in (
        (f'{{"{topic}":{{"0":100}}}}', f'{{"{remote}":{{"0":40}}}}\n'),
        (f"# two\n{topic}:0:101\n\n{topic}:0:100\n", f"{remote}:0:41\n{remote}:0:40\n"),
        (
            _offsets({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 100}),
            _offsets({"kafka_topic": remote, "kafka_partition": 0}, {"kafka_offset": 40}) + "\n",
        ),
        (  # the last copied one
            _offsets({"cluster": stage.alias, "topic": topic, "partition": 0}, {"offset": 99}),
            _offsets({"cluster": stage.to, "partition": 0, "topic": remote}, {"offset": 39}) + "\n",
        ),
    ):
        file.write_text(given)
        assert mm2(stage.file(), "--positions", str(file)) == (0, expected, "")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{topic}:0:100".encode())))
    assert mm2(stage.file(), "--positions", "-") == (0, f"{remote}:0:40\n", "")


def _offsets(partition: dict[str, object], offset: dict[str, object]) -> str:
    return json.dumps({"offsets": [{"partition": partition, "offset": offset}]}, separators=(",", ":"))


def test_what_the_flow_does_not_copy(stage: Stage, mm2: Any, tmp_path: Path) -> None:
    topic, remote = stage.source_partition("orders").topic, stage.remote_partition("orders").topic
    code, out, err = mm2(*at(stage, topic, 3, offset=0))
    assert (code, out) == (2, "")
    assert err.startswith(f"mm2 translate: partition 3 does not exist: {remote} on {stage.to} has partitions 0 to 2")
    code, out, err = mm2(*at(stage, f"{topic}-x", 0, offset=0))
    assert (code, out) == (2, "")
    assert f"topic {remote}-x does not exist on {stage.to}: nothing of it has been copied" in err
    file = tmp_path / "positions"
    file.write_text(f"{topic}:0:100\nhidden:0:1\n{topic}:9:1\n{remote}:0:1\n")
    code, out, err = mm2(stage.file(), "--positions", str(file))
    assert (code, out) == (2, "")
    assert [line for line in err.splitlines() if not line.startswith("    fix:")] == [
        f"{file}:2: error: {stage.name} does not copy topic hidden: not matched by topics: {stage.alias}-.*",
        f"{file}:3: error: partition 9 does not exist: {remote} on {stage.to} has partitions 0 to 2",
        f"{file}:4: error: {stage.name} does not copy topic {remote}: not matched by topics: {stage.alias}-.*",
        f"{file}: 3 errors",
    ]
    assert f"    fix: use its name on the source, {topic}, or --reverse for a position on the target" in err


def test_times(stage: Stage, nowhere: str, mm2: Any) -> None:
    topic, remote = stage.source_partition("timed").topic, stage.remote_partition("timed").topic
    assert mm2(*at(stage, topic, 0, time=HOUR_AGO + 4_001)) == (0, f"{remote}:0:2\n", "")
    without_source = stage.file("lost.properties", **{f"{stage.alias}.bootstrap.servers": nowhere})
    moment = datetime.fromtimestamp((HOUR_AGO + 4_001) / 1_000, UTC)
    words = ["--topic", topic, "--partition", "0", "--time", moment.isoformat()]
    code, out, err = mm2(without_source, *words, "--json")
    (row,) = json.loads(out)
    assert (code, row["offset"], row["remote_offset"], row["precision"]) == (3, None, 2, "conservative")
    assert err.count("is unreachable") == 1
    topic_configs.alter(stage.target, remote, "message.timestamp.type", "LogAppendTime")
    code, out, err = mm2(without_source, *words)
    assert (code, out) == (1, "")
    assert f"{stage.to} stamps records of {remote} with the time when they were copied" in err


def test_all_groups_with_a_dead_source(
    stage: Stage, groups: dict[str, str], nowhere: str, mm2: Any, tmp_path: Path
) -> None:
    """The run of docs/how-to/failover.md, and one with the source."""
    remote = stage.remote_partition("orders").topic
    behind, up, reader = groups["behind"], groups["caught,up"], groups["reader"]
    pattern = f".*{reader.rpartition('-')[2]}|.*{behind.rpartition('-')[2]}|.*{up.rpartition('-')[2]}|excluded-.*"
    code, out, err = mm2(stage.file(), "--groups", pattern)
    assert code == 3
    assert out.splitlines() == [
        f"{behind},{remote},1,1450",
        f'"{up}",{remote},0,1040',
        f"{reader},{remote},0,717",
        f"{reader},{remote},1,1901",
    ]
    assert f"{groups['excluded']} (excluded by groups.exclude" in err
    with socket.create_server((HOST, 0)) as mute:
        address = f"{HOST}:{mute.getsockname()[1]}"
        for dead, within in ((nowhere, 10.0), (address, 20.0)):
            lost = {f"{stage.alias}.bootstrap.servers": dead, f"{stage.alias}.request.timeout.ms": "3000"}
            began = time.monotonic()
            code, out, err = mm2(stage.file("lost.properties", **lost), "--groups", ".*")
            require_within(time.monotonic() - began, within, "mm2 translate does not wait for the source for longer")
            assert code == 3
            assert out.splitlines() == [  # as of the last checkpoints
                f"{behind},{remote},1,1450",
                f'"{up}",{remote},0,1040',
                f"{reader},{remote},0,640",
            ]
            assert err.count("is unreachable") == 1
    code, out, _ = mm2(stage.file("lost.properties", **lost), "--groups", reader, "--json")
    assert (code, [(one["group"], one["remote_offset"]) for one in json.loads(out)]) == (0, [(reader, 640)])
    code, out, err = mm2(stage.file(), "--groups", "nobody")
    assert (code, out) == (1, "")
    assert err.startswith("mm2 translate: no group matches nobody. Groups: ")


def test_client_library(stage: Stage, nowhere: str) -> None:
    """A client reads what is new at each call. It is used by a second thread and by asyncio, too."""
    topic, remote = stage.source_partition("later").topic, stage.remote_partition("later").topic
    stage.create("later")
    for cluster, name in ((stage.source, topic), (stage.target, remote)):
        write(cluster.bootstrap, name, [Outgoing(value=b"v")] * 10)
    with PositionClient(stage.file(), stage.name) as client:

        def answers() -> list[tuple[int | None, Precision]]:
            rows = client.translate(
                [Position(topic, 0, 7), Position(stage.source_partition("orders").topic, 0, 100)]
            ).rows
            return [(one.remote_offset, one.precision) for one in rows]

        assert answers() == [(0, Precision.CONSERVATIVE), (40, Precision.EXACT)]
        stage.copied("later", 2, 0, 8)
        wait_until(lambda: answers()[0] == (5, Precision.EXACT), 30.0, "the client reads the new segment")
        (row,) = client.translate([Position(remote, 0, 5)], reverse=True).rows
        assert (row.answer, row.exact) == (Position(topic, 0, 7), True)
        with pytest.raises(PositionRejectedError, match="does not copy topic hidden"):
            client.translate([Position("hidden", 0, 1)])
    lost = stage.file("client.properties", **{f"{stage.alias}.bootstrap.servers": nowhere})

    async def without_source() -> PositionAnswers:
        async with AsyncPositionClient(lost, stage.name) as client:
            return await client.translate([Position(topic, 0, 7)])

    answer = asyncio.run(without_source())
    assert (answer.rows[0].remote_offset, len(answer.notes)) == (5, 1)
    assert answer.notes[0].startswith(f"cluster {stage.alias} is unreachable (")


async def test_a_service_without_requests_releases_its_memory(stage: Stage) -> None:
    settings = load(Path(stage.file())).settings
    assert settings is not None
    service = PositionService(settings.flows[0], idle_s=0.2)
    asked = [Position(stage.source_partition("orders").topic, 0, 100)]
    for _ in range(2):
        assert (await service.translate(asked, reverse=False)).rows[0].remote_offset == 40
        assert service.is_open
        await until(lambda: not service.is_open, 10.0, "it has released its memory")
    await service.close()


def test_unreachable_target(stage: Stage, nowhere: str, mm2: Any) -> None:
    file = stage.file("no-target.properties", **{f"{stage.to}.bootstrap.servers": nowhere})
    for words in (["--topic", "t", "--partition", "0", "--offset", "1"], ["--groups", ".*"]):
        code, out, err = mm2(file, *words)
        assert (code, out) == (1, "")
        assert err.startswith(f"mm2 translate: cluster {stage.to} is unreachable")
        assert err.count("\n") == 1
