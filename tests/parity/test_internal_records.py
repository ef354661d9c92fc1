"""What we and Java's MirrorMaker wrote into the same internal topics, and each read of the other's (mm2-compat §2)."""

from __future__ import annotations

import re
import subprocess

import pytest

from mm2.core.client_settings import ClientSettings
from mm2.core.connect_offsets import CheckpointKey, HeartbeatKey, SourceKey, decode_key, encode_key
from mm2.core.formats import Checkpoint, Heartbeat, OffsetSync
from mm2.core.names import Flow, TopicPartition
from mm2.kafka.cluster import Cluster
from mm2.node.source_offsets import SourceOffsets
from tests.lab import jars, jvm
from tests.lab.history import Partitions, count, read_topic
from tests.parity.internal_records import positions, since, stored, syncs
from tests.parity.story import BUSY, HEARTBEATS, OFFSETS, READ_TO, READERS, STILL, STILL_RECORDS, SYNCS_OF_B, Story

pytestmark = pytest.mark.timeout(600)  # the first test plays the story

FORMATTERS = "org.apache.kafka.connect.mirror.formatters"
READS = 60.0  # seconds for Java's console consumer to start and read a small topic


def _by_java(story: Story, name: str) -> Partitions:
    """What Java added to an internal topic of flow A->B."""
    return since(getattr(story.after_java, name), getattr(story.by_us, name))


@pytest.mark.parametrize("name", ["offsets", "syncs", "heartbeats"])
def test_same_keys_to_the_byte_in_the_same_partitions(story: Story, name: str) -> None:
    """For every key that both wrote, every busy partition among them. Java alone writes those of groups that came
    later."""
    ours = {one.key: one.partition for one in stored(getattr(story.by_us, name))}
    java = {one.key: one.partition for one in stored(_by_java(story, name))}
    both = ours.keys() & java.keys()
    assert {key: ours[key] for key in both} == {key: java[key] for key in both}
    assert len(both) >= (1 if name == "heartbeats" else sum(partitions for partitions, _ in BUSY.values()))
    later = {f"{READERS}-{offset}" for offset in READ_TO}
    only_java = [decode_key(key) for key in java.keys() - ours.keys()]
    assert all(isinstance(key, CheckpointKey) and key.group in later for key in only_java)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("offsets", re.compile(rb'\{"offset":\d+\}')),
        ("syncs", re.compile(rb".{16}", re.DOTALL)),
        ("heartbeats", re.compile(rb"\0\0.{8}", re.DOTALL)),
    ],
)
def test_same_shape_of_values(story: Story, name: str, shape: re.Pattern[bytes]) -> None:
    for records in (getattr(story.by_us, name), _by_java(story, name)):
        assert count(records)
        for one in stored(records):
            assert shape.fullmatch(one.value), one
            assert one.headers == 0


def test_same_bytes_as_java_makes_of_the_same_fields(story: Story) -> None:
    """Decoded by us and encoded again, Java's records are what they were."""
    for one in stored(_by_java(story, "offsets")):
        assert encode_key(decode_key(one.key)) == one.key
    for one in stored(_by_java(story, "syncs")):
        sync = OffsetSync.decode(one.key, one.value)
        assert (sync.key(), sync.value()) == (one.key, one.value)
    for one in stored(_by_java(story, "heartbeats")):
        heartbeat = Heartbeat.decode(one.key, one.value)
        assert (heartbeat.key(), heartbeat.value()) == (one.key, one.value)


def test_both_keep_offsets_of_sources_and_of_the_heartbeat_task(story: Story) -> None:
    for records in (story.by_us.offsets, _by_java(story, "offsets")):
        keys = [decode_key(one.key) for one in stored(records)]
        assert HeartbeatKey(source="A", target="B") in keys
        assert {key.cluster for key in keys if isinstance(key, SourceKey)} == {"A"}


def test_heartbeats_carry_their_own_time(story: Story) -> None:
    for records in (story.by_us.heartbeats, _by_java(story, "heartbeats")):
        for one in stored(records):
            heartbeat = Heartbeat.decode(one.key, one.value)
            assert (heartbeat.source, heartbeat.target) == ("A", "B")
            assert heartbeat.timestamp_ms == one.timestamp_ms
            assert one.partition == 0


async def test_our_node_reads_the_offsets_of_both(story: Story) -> None:
    """Java's last word over our first; where Java said nothing, ours."""
    async with Cluster(ClientSettings(bootstrap_servers=(story.b.bootstrap,), alias="B")) as cluster:
        offsets = SourceOffsets(cluster, OFFSETS, Flow("A", "B"), partitions=25)
        await offsets.refresh()
        for topic, partitions in story.source.items():
            for number, records in partitions.items():
                wanted = records[-1].offset + 1 if records else None
                assert offsets.position(TopicPartition(topic, number)) == wanted
    read_by_java = positions(_by_java(story, "offsets"))
    assert {one.topic for one in read_by_java} >= BUSY.keys()
    for partition, position in positions(story.by_us.offsets).items():
        assert read_by_java.get(partition, position) >= position, "Java began before the place we stored"


def test_java_goes_on_from_our_checkpoints(story: Story) -> None:
    """STILL is quiet: all its offset syncs of flow A->B are ours. Java, which reads them and our checkpoints, has
    nothing to add where the group has come to the end."""
    assert {sync.topic_partition.topic for sync, _ in syncs(_by_java(story, "syncs"))}.isdisjoint({STILL})
    found = [
        checkpoint
        for one in stored(story.checkpoints)
        if (checkpoint := Checkpoint.decode(one.key, one.value)).group == READERS
    ]
    assert {one.topic_partition for one in found} == {TopicPartition(f"A.{STILL}", 0)}
    places = [one.downstream_offset for one in found]
    assert places == sorted(set(places)), "it rose while the topic was copied"
    assert (found[-1].upstream_offset, places[-1]) == (STILL_RECORDS, STILL_RECORDS)


def test_java_prints_our_heartbeats_and_syncs(story: Story) -> None:
    ours = [Heartbeat.decode(one.key, one.value) for one in stored(story.by_us.heartbeats)]
    printed = _printed_by_java(story.b.bootstrap, HEARTBEATS, "HeartbeatFormatter", len(ours))
    assert printed == [
        f"Heartbeat{{sourceClusterAlias={one.source}, targetClusterAlias={one.target}, timestamp={one.timestamp_ms}}}"
        for one in ours
    ]
    told = [sync for sync, _ in syncs(story.by_us.syncs)]
    printed = _printed_by_java(story.a.bootstrap, SYNCS_OF_B, "OffsetSyncFormatter", len(told))
    assert printed == [
        f"OffsetSync{{topicPartition={one.topic_partition}, upstreamOffset={one.upstream_offset}, "
        f"downstreamOffset={one.downstream_offset}}}"
        for one in told
    ]


def _printed_by_java(bootstrap: str, topic: str, formatter: str, records: int) -> list[str]:
    """The first ``records`` records of a topic of one partition, in the words of Java's console consumer."""
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


def test_nothing_but_these_is_in_our_internal_topics(story: Story) -> None:
    """Java reads mm2-configs and mm2-status too, and skips keys it does not know: all of ours begin with mm2-."""
    ours = {
        "mm2-configs.A.internal": {b"mm2-slots", b"mm2-groups", b"mm2-terms"},
        "mm2-status.A.internal": {b"mm2-slots"},
    }
    javas = re.compile(rb"connector|task|commit|session-key|status|target-state|tasks-fencing")
    for topic, known in ours.items():
        partitions = read_topic(story.b.bootstrap, topic).values()
        keys = {record.content[0] or b"" for records in partitions for record in records}
        strange = {re.sub(rb"-\d+(\.\d+)?$", b"", key) for key in keys if not javas.match(key)}
        assert strange <= known
        assert b"mm2-slots" in strange
