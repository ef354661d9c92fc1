"""``mm2 lag`` without a node: the offsets stored on the target, and the end offsets of the source."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition

from mm2.cli.commands import execute, mm2_app
from mm2.cli.errors import CommandError
from mm2.cli.node import stored_lags
from mm2.cli.node.lag_report import LagOrder, LagSource
from mm2.core.assignment.source_task_records import SourceTaskRecord, encode_source_task
from mm2.core.coordination import pauses
from mm2.core.coordination.pauses import Pauses, encode_pauses
from mm2.core.lanes.losses import Loss, encode_loss, encode_loss_key
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.topics.deleted_topics import due_deletions
from mm2.core.topics.selection import Selection
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import list_offsets
from tests.integration.failover_stage import Stage
from tests.integration.shared_node import COPIED
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT, command_path
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.processes import LabProcess
from tests.lab.records import Outgoing, plain, write
from tests.lab.sent_requests import sent_requests
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

WRITTEN = 100  # records of each partition


@pytest.fixture(scope="module")
def stage(cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """``orders`` has partitions with the stored offsets 59, none, -1, 99, and 4 of which the source lacks the records
    before 10; the topic ``paused`` is paused; ``stopped`` is stopped by a loss; the partitions of ``recreated`` were
    assigned when the topic had another ID."""
    aliases = unique_name("A"), unique_name("B")
    made = Stage(tmp_path_factory.mktemp("lag"), source=cluster_a, target=cluster_b, aliases=aliases)
    made.properties[f"{made.name}.heartbeats.replication.enabled"] = "false"  # other tests write some on these clusters
    made.create("orders", partitions=5)
    made.create("recreated")
    made.create("paused")
    made.create("stopped")
    for name in ("gone", "named"):
        made.target.create_topic(made.remote_partition(name).topic, 2)
    write(cluster_b.bootstrap, made.remote_partition("gone").topic, plain(30, partitions=2))
    offsets, configs = f"mm2-offsets.{made.alias}.internal", f"mm2-configs.{made.alias}.internal"
    losses = f"mm2-losses.{made.alias}.internal"
    for topic in (offsets, configs, losses):
        cluster_b.create_topic(topic, config={"cleanup.policy": "compact"})
    orders = made.source_partition("orders").topic
    write(cluster_a.bootstrap, orders, plain(5 * WRITTEN, partitions=5))
    for future in cluster_a.admin.delete_records([ClientPartition(orders, 4, 10)]).values():
        future.result(30)

    def store(topic: str, partition: int, offset: int) -> None:
        key = encode_key(SourceKey(cluster=made.alias, topic=topic, partition=partition))
        write(cluster_b.bootstrap, offsets, [Outgoing(key=key, value=encode_offset(offset))])

    for partition, offset in ((0, 10), (0, 59), (2, -1), (3, WRITTEN - 1), (4, 4)):
        store(orders, partition, offset)
    gone = made.source_partition("gone").topic
    store(gone, 0, 14)
    seen = Selection(present=frozenset({gone}))
    for key, noticed in due_deletions({}, [gone], before=seen, now_ms=1_796_000_000_000):
        write(cluster_b.bootstrap, configs, [Outgoing(key=key, value=noticed)])
    paused, stopped = made.source_partition("paused").topic, made.source_partition("stopped").topic
    recreated = made.source_partition("recreated")
    write(cluster_a.bootstrap, recreated.topic, plain(WRITTEN))
    store(recreated.topic, 0, 49)
    assigned = SourceTaskRecord(
        source_task=0,
        epoch=1,
        version=1,
        partitions=frozenset({recreated}),
        topic_ids={recreated.topic: TopicIds(source=uuid4())},
    )
    for key, assignment in encode_source_task(assigned):
        write(cluster_b.bootstrap, configs, [Outgoing(key=key, value=assignment)])
    value = encode_pauses(Pauses(topics=frozenset({paused})))
    write(cluster_b.bootstrap, configs, [Outgoing(key=pauses.KEY, value=value)])
    loss = Loss(
        topic=stopped, partition=0, first=0, until=5, reason="they were deleted", kind="retention", stops="partition"
    )
    write(cluster_b.bootstrap, losses, [Outgoing(key=encode_loss_key(loss), value=encode_loss(loss))])
    return made


@pytest.fixture
def mm2(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command in this process."""

    def call(*words: str) -> tuple[int, str, str]:
        code = execute(mm2_app(), words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def no_listener() -> Iterator[str]:
    """A URL that refuses connections."""
    port = reserve_port()
    yield f"http://{HOST}:{port}"
    release_port(port)


@pytest.fixture
def watch_lag(tmp_path: Path) -> Iterator[Callable[[Path, str], LabProcess]]:
    """Run ``mm2 lag FILE --topic TOPIC --watch`` until the test ends."""
    running: list[LabProcess] = []

    def start(file: Path, topic: str) -> LabProcess:
        command = [command_path("mm2"), "lag", str(file), "--topic", topic, "--watch"]
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        running.append(LabProcess("mm2 lag --watch", command, tmp_path / "watch.log", cwd=ROOT, env=env))
        return running[-1]

    yield start
    for one in running:
        one.kill()


def partitions(out: str) -> dict[str, dict[str, Any]]:
    (flow,) = json.loads(out)["flows"]
    return {f"{one['topic'].partition('-')[2].partition('-')[2]}-{one['partition']}": one for one in flow["partitions"]}


def test_losses_of_a_topic_without_a_node(stage: Stage, mm2: Any) -> None:
    """A topic that does not exist is an error, and not one without losses."""
    file, topics = stage.file(), {name: stage.source_partition(name).topic for name in ("stopped", "orders", "order")}

    def losses(name: str) -> tuple[int, Any, str]:
        code, out, err = mm2("losses", file, "--topic", topics[name], "--json")
        return code, [one["topic"] for one in json.loads(out)] if out else None, err

    assert losses("stopped") == (0, [topics["stopped"]], "")
    assert losses("orders") == (0, [], "")
    code, shown, err = losses("order")
    assert (code, shown) == (2, None)
    assert f"topic {topics['order']} is not replicated" in err


def test_deleted_topics_without_a_node(stage: Stage, mm2: Any) -> None:
    """One that a stored offset tells, with the leader's time, and one that its name tells; of a dead source nothing."""
    names = {name: stage.source_partition(name).topic for name in ("gone", "named")}
    remote = {name: stage.remote_partition(name).topic for name in names}
    time = {"since": 1_796_000_000_000, "noticed": 1_796_000_000_000}
    gone = {"topic": names["gone"], "remote_topic": remote["gone"], "deleted": True, "records": 30, "copied": True}
    named = {"topic": names["named"], "remote_topic": remote["named"], "deleted": True, "records": 0, "copied": False}
    code, out, err = mm2("topics", stage.file(), "--deleted", "--json")
    assert (code, err) == (0, "")
    (flow,) = json.loads(out)["flows"]
    assert flow == {"flow": stage.name, "topics": [gone | time, named | {"since": None, "noticed": None}]}
    code, out, _ = mm2("topics", stage.file(), "--deleted")
    assert (code, "2026-11-30T00:53:20Z" in out) == (0, True)

    port = reserve_port()
    away = stage.file("away.properties", **{f"{stage.alias}__bootstrap__servers": f"{HOST}:{port}"})
    code, out, err = mm2("topics", away, "--deleted", "--json")
    release_port(port)
    (flow,) = json.loads(out)["flows"]
    assert (code, flow["topics"]) == (1, [gone | time | {"deleted": None}])
    assert f"cluster {stage.alias} is unreachable" in err
    assert f"it is unknown which source topics of {stage.name} are gone now" in err

    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    same = stage.file("same.properties", replication__policy__class=policy)
    code, out, err = mm2("topics", same, "--deleted", "--json")
    assert (code, json.loads(out)["flows"][0]["topics"]) == (0, []), "no topic of its name is on the target"
    assert "does not tell by the name of a topic where it comes from" in err


def test_lag_of_every_kind_of_stored_offset(stage: Stage, no_listener: str, mm2: Any) -> None:
    code, out, err = mm2("lag", stage.file(listeners=no_listener), "--json")
    assert code == 0, err
    assert err.startswith(f"mm2 lag: no node answers ({no_listener} is not reachable: connection refused.")
    assert err.count("\n") == 1
    assert json.loads(out)["read_from"] == "clusters"
    found = partitions(out)
    shown = {
        name: (one["position"], one["end_offset"], one["lag_records"], one["state"]) for name, one in found.items()
    }
    assert shown == {
        "orders-0": (60, 100, 40, None),
        "orders-1": (0, 100, 100, None),
        "orders-2": (0, 100, 100, None),
        "orders-3": (100, 100, 0, None),
        "orders-4": (10, 100, 90, None),
        "recreated-0": (0, 100, 100, None),
        "paused-0": (0, 0, 0, "PAUSED"),
        "stopped-0": (0, 0, 0, None),
    }
    assert {name: one["error"] for name, one in found.items() if one["error"] is not None} == {
        "orders-1": "no offset is stored yet: starts at 0",
        "orders-4": "offset 5 was deleted on the source before it was copied: the partition now starts at 10",
        "recreated-0": f"topic {stage.source_partition('recreated').topic} was deleted and recreated on {stage.alias};"
        " replicating it from the beginning, the remote topic keeps the old records",
        "paused-0": "no offset is stored yet: starts at 0",
        "stopped-0": "no offset is stored yet: starts at 0",
    }
    (flow,) = json.loads(out)["flows"]
    assert (flow["lag_records"], flow["caught_up"], flow["state"], flow["records_per_second"]) == (430, 3, None, None)


def test_file_without_listeners_and_start_at_the_end(stage: Stage, mm2: Any) -> None:
    changes = {
        f"{stage.alias}.consumer.auto.offset.reset": "latest",
        f"{stage.name}.mm2.on.data.loss": "stop-partition",
    }
    code, out, err = mm2("lag", stage.file("latest.properties", **changes), "--json", "--sort", "topic")
    assert code == 0, err
    assert "has no listeners" in err
    found = partitions(out)
    assert list(found) == sorted(found)
    assert [found[f"orders-{number}"]["lag_records"] for number in range(5)] == [40, 0, 100, 0, 0]
    assert (found["stopped-0"]["state"], found["stopped-0"]["error"]) == (
        "FAILED",
        "stopped by a loss: they were deleted",
    )


def test_filters(stage: Stage, mm2: Any) -> None:
    orders, paused = stage.source_partition("orders").topic, stage.source_partition("paused").topic
    code, out, _ = mm2("lag", stage.file(), "--flow", stage.name, "--topic", paused, "--json")
    assert (code, list(partitions(out))) == (0, ["paused-0"])
    code, out, err = mm2("lag", stage.file(), "--topic", f"{orders}x")
    assert (code, out) == (2, "")
    assert err.startswith(f"mm2 lag: topic {orders}x is not replicated (use its name on the source). Did you mean")
    assert orders in err
    code, _, err = mm2("lag", stage.file(), "--flow", "A->Z")
    assert (code, err) == (2, f"mm2 lag: no enabled flow 'A->Z'. Enabled flows: {stage.name}.\n")
    code, _, err = mm2("lag", stage.file(), "--sort", "size")
    assert (code, err) == (2, "mm2 lag: --sort size: must be one of lag, seconds, topic, node\n")


def test_only_the_wanted_topics_are_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[TopicPartition] = set()

    async def noting(cluster: Cluster, partitions: Collection[TopicPartition], *args: Any, **options: Any) -> Any:
        asked.update(partitions)
        return await list_offsets(cluster, partitions, *args, **options)

    monkeypatch.setattr(stored_lags, "list_offsets", noting)
    orders = stage.source_partition("orders").topic
    (flow,) = LagSource(stage.file(), topics=[orders]).read().flows
    assert [topic.topic for topic in flow.topics] == [orders]
    assert asked == {TopicPartition(orders, number) for number in range(5)}


def test_table(stage: Stage, mm2: Any) -> None:
    code, out, _ = mm2("lag", stage.file())
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[1] == [stage.name, "unknown", "unknown", "430", "unknown", "-", "8", "3"]
    orders = stage.source_partition("orders").topic
    assert rows[4][:9] == [stage.name, orders, "1", "unknown", "100", "-", "-", "0", "100"]


def test_unreachable_source(stage: Stage, no_listener: str, mm2: Any) -> None:
    away = {f"{stage.alias}.bootstrap.servers": no_listener.removeprefix("http://")}
    code, out, err = mm2("lag", stage.file("away.properties", **away))
    assert (code, out) == (1, "")
    assert err.startswith(f"mm2 lag: cluster {stage.alias} is unreachable: ")
    assert err.count("\n") == 1


def test_transaction_that_is_open_under_read_committed(stage: Stage, cluster_a: KafkaCluster, mm2: Any) -> None:
    """The lag ends at the last stable offset, as that of a node."""
    stage.create("open")
    topic = stage.source_partition("open").topic
    write(cluster_a.bootstrap, topic, plain(10))
    producer = Producer(
        {"bootstrap.servers": cluster_a.bootstrap, "transactional.id": unique_name("open"), "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"uncommitted")
    assert producer.flush(30) == 0
    try:
        committed = {f"{stage.alias}.consumer.isolation.level": "read_committed"}
        for changes, end in ((committed, 10), ({}, 11)):
            _, out, _ = mm2("lag", stage.file("open.properties", **changes), "--topic", topic, "--json")
            (one,) = partitions(out).values()
            assert (one["end_offset"], one["lag_records"]) == (end, end)
    finally:
        producer.abort_transaction(30)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_watched_clusters_are_read_at_intervals(stage: Stage, cluster_a: KafkaCluster) -> None:
    stage.create("watched")
    topic = stage.source_partition("watched").topic
    clock = Clock()
    source = LagSource(stage.file(), topics=[topic], watching=True, clock=clock)

    def look() -> tuple[int | None, str]:
        report = source.read()
        (row,) = report.rows(LagOrder.TOPIC)
        return row.status.lag_records, report.notes[1]

    assert look() == (0, "the clusters were read 0 s ago; next in 10 s")
    write(cluster_a.bootstrap, topic, plain(7))
    clock.now += 4
    with sent_requests() as sent:
        assert look() == (0, "the clusters were read 4 s ago; next in 6 s")
    assert sent == []
    clock.now += 6
    assert look() == (7, "the clusters were read 0 s ago; next in 10 s")


def test_slow_clusters_are_read_for_half_of_the_time(stage: Stage) -> None:
    """The clock is read at the beginning, and after a reading of the clusters."""
    times = iter((1_000.0, 1_020.0, 1_023.0))
    source = LagSource(stage.file(), watching=True, clock=lambda: next(times))
    assert [source.read().notes[1] for _ in range(2)] == [
        "the clusters were read 0 s ago; next in 20 s",
        "the clusters were read 3 s ago; next in 17 s",
    ]


def test_unreachable_clusters_are_read_again_at_once(stage: Stage, no_listener: str) -> None:
    address = no_listener.removeprefix("http://")
    source = LagSource(stage.file(**{f"{stage.alias}.bootstrap.servers": address}), watching=True)
    with pytest.raises(CommandError, match=f"cluster {stage.alias} is unreachable"):
        source.read()
    stage.file()
    assert source.read().notes[1] == "the clusters were read 0 s ago; next in 10 s"


def newest_row(watch: LabProcess) -> list[str]:
    """Return the words of the newest row of the table of flows."""
    lines = watch.output().splitlines()
    headings = [number for number, line in enumerate(lines[:-1]) if line.startswith("flow") and "outlook" in line]
    return lines[headings[-1] + 1].split() if headings else []


@pytest.mark.long  # a node and its Spark; stored offsets without a node: the tests above
def test_killed_node(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path: Path, mm2: Any, watch_lag: Callable[..., LabProcess]
) -> None:
    """The lag is what is missing on the target; the owner is shown while the node is a member, rates while it runs."""
    a, b = unique_name("A"), unique_name("B")
    name = f"{a}->{b}"
    topic = cluster_a.create_topic(f"{a}-orders", 2)
    write(cluster_a.bootstrap, topic, plain(1_000, partitions=2))
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*")
    properties |= {"mm2.lanes": "1", f"{b}.offset.flush.interval.ms": "500"}

    def rows(*words: str) -> dict[int, dict[str, Any]]:
        code, out, err = mm2("lag", str(node.file), "--json", "--topic", topic, *words)
        assert code == 0, err
        answer = json.loads(out)
        reads.append(answer["read_from"])
        (flow,) = answer["flows"]
        return {one["partition"]: one for one in flow["partitions"]}

    reads: list[str] = []
    with Node(properties, name="killed") as node:
        node.wait_running()
        node_rows = wait_until(
            lambda: shown if [(shown := rows())[one]["lag_records"] for one in (0, 1)] == [0, 0] else None,
            COPIED,
            "the running node has caught up",
        )
        assert set(reads) == {"node"}
        assert node_rows is not None
        owner = node_rows[0]["node"]
        assert owner
        without = tmp_path / "without.properties"
        text = node.file.read_text()
        without.write_text("\n".join(line for line in text.splitlines() if not line.startswith("listeners")))

        def stored() -> list[tuple[Any, Any]]:
            code, out, err = mm2("lag", str(without), "--json", "--topic", topic)
            assert code == 0, err
            (flow,) = json.loads(out)["flows"]
            return [(one["lag_records"], one["node"]) for one in flow["partitions"]]

        wait_until(lambda: stored() == [(0, owner)] * 2, COPIED, "all offsets are stored, and the owner is known")
        watch = watch_lag(node.file, topic)
        wait_until(
            lambda: newest_row(watch) == [name, "RUNNING", "caught", "up", "0", "0.0", "0", "2", "2"],
            COPIED,
            "the watched flow has a rate",
        )
        node.kill()
        wait_until(lambda: not node.family(), COPIED, "its lanes have ended: a lane still copies for some 0.1 s")
        write(cluster_a.bootstrap, topic, plain(300, first=1_000, partitions=2))
        reads.clear()
        killed = rows("--flow", name)
        assert reads == ["clusters"]
        copied = {number: len(records) for number, records in read_topic(cluster_b.bootstrap, f"{a}.{topic}").items()}
        there = {number: len(records) for number, records in read_topic(cluster_a.bootstrap, topic).items()}
        assert {number: one["lag_records"] for number, one in killed.items()} == {
            number: there[number] - copied[number] for number in there
        }
        assert sum(one["lag_records"] for one in killed.values()) == 300
        wait_until(
            lambda: newest_row(watch) == [name, "unknown", "unknown", "300", "unknown", "-", "2", "0"],
            COPIED,
            "the watched flow has the lag of the clusters, and no rate of the killed node",
        )
        wait_until(
            lambda: re.search(r"^the clusters were read [2-9] s ago; next in \d s", watch.output(), re.MULTILINE),
            COPIED,
            "the watched clusters are not read at each refresh",
        )
        node_gone = wait_until(
            lambda: shown if {(shown := rows())[one]["node"] for one in (0, 1)} == {None} else None,
            COPIED,
            "the killed node is no member any more",
        )
        assert node_gone is not None
