"""Internal records that mm2 and Java's MirrorMaker wrote into the same topics, and that each reads of the other."""

from __future__ import annotations

import re
import subprocess

import pytest

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.connect_offsets import CheckpointKey, HeartbeatKey, SourceKey, decode_key, encode_key
from mm2.core.settings.client import ClientSettings
from mm2.core.wire.formats import Checkpoint, Heartbeat, OffsetSync
from mm2.kafka.client.cluster import Cluster
from mm2.node.source.source_offsets import StoredSourceOffsets
from tests.lab import jars, jvm
from tests.lab.history import Partitions, count, read_topic
from tests.parity.internal_records import positions, since, stored, syncs
from tests.parity.scenario import (
    BUSY,
    HEARTBEATS,
    OFFSETS,
    READ_TO,
    READERS,
    STILL,
    STILL_RECORDS,
    SYNCS_OF_B,
    Scenario,
)

pytestmark = pytest.mark.timeout(600)  # the first test runs the scenario

FORMATTERS = "org.apache.kafka.connect.mirror.formatters"
READS = 60.0  # seconds for Java's console consumer to start and read a small topic


def _by_java(scenario: Scenario, name: str) -> Partitions:
    """Return what Java added to an internal topic of flow A->B."""
    return since(getattr(scenario.after_java, name), getattr(scenario.by_us, name))


@pytest.mark.parametrize("name", ["offsets", "syncs", "heartbeats"])
def test_same_keys_to_the_byte_in_the_same_partitions(scenario: Scenario, name: str) -> None:
    """Both wrote the keys of all busy partitions. Only Java wrote keys of groups that were created later."""
    ours = {one.key: one.partition for one in stored(getattr(scenario.by_us, name))}
    java = {one.key: one.partition for one in stored(_by_java(scenario, name))}
    both = ours.keys() & java.keys()
    assert {key: ours[key] for key in both} == {key: java[key] for key in both}
    assert len(both) >= (1 if name == "heartbeats" else sum(partitions for partitions, _ in BUSY.values()))
    later = {f"{READERS}-{offset}" for offset in READ_TO}
    only_java = [decode_key(key) for key in java.keys() - ours.keys()]
    assert all(isinstance(key, CheckpointKey) and key.group in later for key in only_java)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("offsets", re.compile(rb'\{"offset":(-1|\d+)\}')),  # ours stores the start of empty partitions, too
        ("syncs", re.compile(rb".{16}", re.DOTALL)),
        ("heartbeats", re.compile(rb"\0\0.{8}", re.DOTALL)),
    ],
)
def test_same_shape_of_values(scenario: Scenario, name: str, shape: re.Pattern[bytes]) -> None:
    for records in (getattr(scenario.by_us, name), _by_java(scenario, name)):
        assert count(records)
        for one in stored(records):
            assert shape.fullmatch(one.value), one
            assert one.headers == 0


def test_same_fields_give_same_bytes_as_java(scenario: Scenario) -> None:
    """Java's records are unchanged after decoding and encoding by mm2."""
    for one in stored(_by_java(scenario, "offsets")):
        assert encode_key(decode_key(one.key)) == one.key
    for one in stored(_by_java(scenario, "syncs")):
        sync = OffsetSync.decode(one.key, one.value)
        assert (sync.key(), sync.value()) == (one.key, one.value)
    for one in stored(_by_java(scenario, "heartbeats")):
        heartbeat = Heartbeat.decode(one.key, one.value)
        assert (heartbeat.key(), heartbeat.value()) == (one.key, one.value)


def test_both_store_offsets_of_source_and_heartbeat_tasks(scenario: Scenario) -> None:
    for records in (scenario.by_us.offsets, _by_java(scenario, "offsets")):
        keys = [decode_key(one.key) for one in stored(records)]
        assert HeartbeatKey(source="A", target="B") in keys
        assert {key.cluster for key in keys if isinstance(key, SourceKey)} == {"A"}


def test_heartbeat_timestamp_equals_record_timestamp(scenario: Scenario) -> None:
    for records in (scenario.by_us.heartbeats, _by_java(scenario, "heartbeats")):
        for one in stored(records):
            heartbeat = Heartbeat.decode(one.key, one.value)
            assert (heartbeat.source, heartbeat.target) == ("A", "B")
            assert heartbeat.timestamp_ms == one.timestamp_ms
            assert one.partition == 0


async def test_node_reads_offsets_of_both(scenario: Scenario) -> None:
    """The position is Java's if Java stored one later, otherwise mm2's."""
    async with Cluster(ClientSettings(bootstrap_servers=(scenario.b.bootstrap,), alias="B")) as cluster:
        offsets = StoredSourceOffsets(cluster, OFFSETS, Flow("A", "B"), source_alias="A", partitions=25)
        await offsets.refresh()
        for topic, partitions in scenario.source.items():
            for number, records in partitions.items():
                wanted = records[-1].offset + 1 if records else None
                assert offsets.position(TopicPartition(topic, number)) == wanted
    read_by_java = positions(_by_java(scenario, "offsets"))
    assert {one.topic for one in read_by_java} >= BUSY.keys()
    for partition, position in positions(scenario.by_us.offsets).items():
        assert read_by_java.get(partition, position) >= position, "Java started before the offset that mm2 stored"


def test_java_continues_from_mm2_checkpoints(scenario: Scenario) -> None:
    """All offset syncs of topic STILL in flow A->B are mm2's.

    Java reads them and mm2's checkpoints, and adds no checkpoint since the group is at the end of the topic.
    """
    assert {sync.topic_partition.topic for sync, _ in syncs(_by_java(scenario, "syncs"))}.isdisjoint({STILL})
    found = [
        checkpoint
        for one in stored(scenario.checkpoints)
        if (checkpoint := Checkpoint.decode(one.key, one.value)).group == READERS
    ]
    assert {one.topic_partition for one in found} == {TopicPartition(f"A.{STILL}", 0)}
    places = [one.downstream_offset for one in found]
    assert places == sorted(set(places)), "the translated offset increased while the topic was copied"
    assert (found[-1].upstream_offset, places[-1]) == (STILL_RECORDS, STILL_RECORDS)


def test_java_formats_mm2_heartbeats_and_syncs(scenario: Scenario) -> None:
    ours = [Heartbeat.decode(one.key, one.value) for one in stored(scenario.by_us.heartbeats)]
    printed = _printed_by_java(scenario.b.bootstrap, HEARTBEATS, "HeartbeatFormatter", len(ours))
    assert printed == [
        f"Heartbeat{{sourceClusterAlias={one.source}, targetClusterAlias={one.target}, timestamp={one.timestamp_ms}}}"
        for one in ours
    ]
    expected = [sync for sync, _ in syncs(scenario.by_us.syncs)]
    printed = _printed_by_java(scenario.a.bootstrap, SYNCS_OF_B, "OffsetSyncFormatter", len(expected))
    assert printed == [
        f"OffsetSync{{topicPartition={one.topic_partition}, upstreamOffset={one.upstream_offset}, "
        f"downstreamOffset={one.downstream_offset}}}"
        for one in expected
    ]


def _printed_by_java(bootstrap: str, topic: str, formatter: str, records: int) -> list[str]:
    """Return the first ``records`` records of a single-partition topic as printed by Java's console consumer."""
    consumer = ("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap)
    what = ("--topic", topic, "--from-beginning", "--max-messages", str(records), "--timeout-ms", "20000")
    outcome = subprocess.run(
        [
            *(jvm.java(), *jvm.QUICK_START, *jvm.log_options("error"), "-cp", jars.class_path(jars.KAFKA_4)),
            *(*consumer, *what, "--formatter", f"{FORMATTERS}.{formatter}"),
        ],
        capture_output=True,
        text=True,
        timeout=READS,
        check=True,
    )
    return outcome.stdout.splitlines()


def test_internal_topics_contain_only_known_keys(scenario: Scenario) -> None:
    """mm2's own keys in mm2-configs and mm2-status start with mm2-; Java skips keys it does not know."""
    ours = {
        "mm2-configs.A.internal": {b"mm2-source-task", b"mm2-groups", b"mm2-terms"},
        "mm2-status.A.internal": {b"mm2-source-task", b"mm2-released"},
    }
    javas = re.compile(rb"connector|task|commit|session-key|status|target-state|tasks-fencing")
    for topic, known in ours.items():
        partitions = read_topic(scenario.b.bootstrap, topic).values()
        keys = {record.content[0] or b"" for records in partitions for record in records}
        unknown_keys = {re.sub(rb"-\d+(\.\d+)?$", b"", key) for key in keys if not javas.match(key)}
        assert unknown_keys <= known
        assert b"mm2-source-task" in unknown_keys
