"""``mm2 migrate-mm1`` on real brokers: a flow continues at the offsets that MirrorMaker 1's group has committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.commands import Outcome, run
from tests.lab.groups import commit, committed, member
from tests.lab.history import Content, read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing, plain, write
from tests.lab.waiting import wait_until

PARTITIONS = 4
RECORDS = 40
COPIED = {0: 4, 1: 10, 2: 0}  # by MirrorMaker 1, by partition: a part, everything, nothing; 3 is not committed
COPIES_WITHIN = 60.0  # seconds, on shared cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """What MirrorMaker 1 has left: its files, its group, and a topic that it has copied in part."""

    source: KafkaCluster
    target: KafkaCluster
    topic: str
    group: str
    command: tuple[str, ...]

    def migrate(self, *options: str) -> Outcome:
        return run("mm2", *self.command, *options)


@pytest.fixture
def mirror(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path) -> Mirror:
    topic, group = unique("orders"), unique("mirror")
    cluster_a.create_topic(topic, PARTITIONS)
    cluster_b.create_topic(topic, PARTITIONS)
    write(cluster_a.bootstrap, topic, plain(RECORDS, partitions=PARTITIONS))
    for partition, records in contents(cluster_a, topic).items():
        done = [
            Outgoing(key=key, value=value, timestamp_ms=time_ms, partition=partition)
            for key, value, _, time_ms in records[: COPIED.get(partition, 0)]
        ]
        write(cluster_b.bootstrap, topic, done)
    commit(cluster_a, group, {(topic, partition): offset for partition, offset in COPIED.items()})
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(f"bootstrap.servers={cluster_a.bootstrap}\ngroup.id={group}\nauto.offset.reset=earliest\n")
    producer.write_text(f"metadata.broker.list={cluster_b.bootstrap}\nrequest.required.acks=-1\n")
    return Mirror(
        source=cluster_a,
        target=cluster_b,
        topic=topic,
        group=group,
        command=(
            *("migrate-mm1", "--consumer.config", str(consumer), "--producer.config", str(producer)),
            *("--whitelist", topic, "--source", unique("A"), "--target", unique("B")),
        ),
    )


def contents(cluster: KafkaCluster, topic: str) -> Mapping[int, list[Content]]:
    return {
        partition: [record.content for record in records]
        for partition, records in read_topic(cluster.bootstrap, topic).items()
    }


def count(cluster: KafkaCluster, topic: str) -> int:
    return sum(map(len, contents(cluster, topic).values()))


@pytest.mark.long  # the offsets that a node continues at: test_stored_offsets
def test_a_flow_continues_where_the_group_stands(mirror: Mirror) -> None:
    printed = mirror.migrate()
    assert printed.code == 0, printed.stderr
    written = mirror.migrate("--write-offsets")
    assert written.code == 0, written.stderr
    assert written.stdout.splitlines()[:3] == [
        f"{mirror.topic}-{partition}: continues at offset {offset}" for partition, offset in COPIED.items()
    ]
    with Node(printed.stdout) as node:
        node.wait_running()
        wait_until(lambda: count(mirror.target, mirror.topic) >= RECORDS, COPIES_WITHIN, "the rest is copied")
        write(mirror.source.bootstrap, mirror.topic, plain(RECORDS, partitions=PARTITIONS, first=RECORDS))
        wait_until(lambda: count(mirror.target, mirror.topic) >= 2 * RECORDS, COPIES_WITHIN, "new records are copied")
        assert node.stop() == 0
    assert contents(mirror.target, mirror.topic) == contents(mirror.source, mirror.topic)
    assert committed(mirror.source, mirror.group) == {(mirror.topic, one): offset for one, offset in COPIED.items()}

    again = mirror.migrate("--write-offsets")
    assert again.code == 1
    assert "has offsets of" in again.stderr
    assert again.stdout == ""


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_stored_offsets(mirror: Mirror, reset: str) -> None:
    """Where a node continues: test_flow_offsets.py resumes at offsets in this format.

    With auto.offset.reset = latest, which is the default of MirrorMaker 1, the end of a partition without an offset is
    stored too, so that what arrives before the node starts is copied.
    """
    expected = COPIED
    if reset == "latest":
        consumer = Path(mirror.command[2])
        consumer.write_text(consumer.read_text().replace("auto.offset.reset=earliest\n", ""))
        expected = COPIED | {3: RECORDS // PARTITIONS}
    written = mirror.migrate("--write-offsets")
    assert written.code == 0, written.stderr
    alias = mirror.command[-3]
    records = read_topic(mirror.target.bootstrap, f"mm2-offsets.{alias}.internal").values()
    stored = {one.content[0]: one.content[1] for partition in records for one in partition}
    key = f'["MirrorSourceConnector",{{"cluster":"{alias}","partition":%d,"topic":"{mirror.topic}"}}]'
    assert stored == {
        (key % partition).encode(): b'{"offset":%d}' % (offset - 1) for partition, offset in expected.items()
    }
    again = mirror.migrate("--write-offsets")
    assert again.code == 1
    assert "has offsets of" in again.stderr


@pytest.mark.long  # what is stored: test_stored_offsets
def test_what_arrives_before_the_node_starts_is_copied(mirror: Mirror) -> None:
    """With auto.offset.reset = latest, which is the default of MirrorMaker 1, in a partition without an offset."""
    consumer = Path(mirror.command[2])
    consumer.write_text(consumer.read_text().replace("auto.offset.reset=earliest\n", ""))
    printed, written = mirror.migrate(), mirror.migrate("--write-offsets")
    assert written.code == 0, written.stderr
    end = RECORDS // PARTITIONS
    assert f"{mirror.topic}-3: starts at its end, offset {end}: no offset is committed" in written.stdout
    assert "stored 4 offsets of group" in written.stdout
    assert written.stdout.splitlines()[:3] == [
        f"{mirror.topic}-{partition}: continues at offset {offset}" for partition, offset in COPIED.items()
    ]
    write(mirror.source.bootstrap, mirror.topic, plain(RECORDS, partitions=PARTITIONS, first=RECORDS))
    with Node(printed.stdout) as node:
        node.wait_running()
        wait_until(lambda: count(mirror.target, mirror.topic) >= 2 * RECORDS - end, COPIES_WITHIN, "the rest is copied")
        assert node.stop() == 0
    expected = contents(mirror.source, mirror.topic)
    assert contents(mirror.target, mirror.topic) == {**expected, 3: expected[3][end:]}
    assert committed(mirror.source, mirror.group) == {(mirror.topic, one): offset for one, offset in COPIED.items()}

    again = mirror.migrate("--write-offsets")
    assert again.code == 1
    assert "has offsets of" in again.stderr
    assert again.stdout == ""


def test_a_group_with_members_is_refused(mirror: Mirror) -> None:
    with member(mirror.source, mirror.group, {mirror.topic}):
        refused = mirror.migrate("--write-offsets")
    assert refused.code == 1
    assert f"group {mirror.group} has members (state Stable): stop MirrorMaker 1 first" in refused.stderr
    assert refused.stdout == ""
    assert mirror.migrate("--write-offsets").code == 0


def test_a_group_without_offsets_of_the_topics_is_refused(mirror: Mirror, unique: Callable[[str], str]) -> None:
    other = mirror.migrate("--include", unique("other"), "--write-offsets")
    assert other.code == 1
    assert f"group {mirror.group} has no committed offsets for the topics of" in other.stderr
    consumer = Path(mirror.command[2])
    consumer.write_text(consumer.read_text().replace(mirror.group, unique("nobody")))
    nobody = mirror.migrate("--write-offsets")
    assert nobody.code == 1
    assert "has no committed offsets on the source: check group.id" in nobody.stderr


def test_offsets_of_other_topics_are_left_out(mirror: Mirror, unique: Callable[[str], str]) -> None:
    other = mirror.source.create_topic(unique("returns"))
    commit(mirror.source, mirror.group, {(other, 0): 0})
    written = mirror.migrate("--write-offsets")
    assert written.code == 0
    assert f"{other}-0: left out, because the flow does not replicate the topic" in written.stdout
    assert "stored 3 offsets of group" in written.stdout
