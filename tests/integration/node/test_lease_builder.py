"""Stored offsets and exact offsets in leases, from the contents of the target's internal topics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import javaproperties
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.coordination.repeats import Repeat, Repeats, RepeatState, encode_repeat
from mm2.core.lanes.lease import PartitionLease, SourceTaskLease
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import RECREATED_TOPIC, SourceKey, encode_key, encode_offset, is_lost_offset
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, SegmentKey, TopicIds, segment_from_text
from mm2.core.offsets.leader_epochs import EpochStart, EpochStarts
from mm2.core.settings.client import ClientSettings
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.source.lease_builder import LeaseBuilder
from mm2.node.source.remote_copies import FoundCopies, RemoteCopies
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.store.loss_store import LossStore
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

TP = TopicPartition("orders", 0)
OLD, NEW = TopicIds(UUID(int=1), UUID(int=2)), TopicIds(UUID(int=3), UUID(int=2))
ELSEWHERE = TopicIds(UUID(int=1), UUID(int=4))
RECREATED = "was deleted and recreated"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFixture:
    """Leases of a separate flow, and its internal topics."""

    target: KafkaCluster
    settings: FlowSettings
    leases: LeaseBuilder
    alias: str

    @property
    def exact_topic(self) -> str:
        return f"mm2-exact-offsets.{self.alias}.internal"

    @property
    def offsets_topic(self) -> str:
        return f"mm2-offsets.{self.alias}.internal"

    def store(self, offset: int) -> None:
        """Store the source offset of the last copied record."""
        self.write(self.offsets_topic, self.key, encode_offset(offset))

    def copied(self, ids: TopicIds, sequence: int = 0, epochs: EpochStarts = ()) -> Segment:
        """Write a segment of 100 records as a lane does."""
        segment = Segment(
            topic_partition=TP,
            sequence=sequence,
            era=0,
            topic_ids=ids,
            before=CopiedUpTo(),
            through=-1,
            ranges=(CopiedRange(0, 0, 100),),
            epochs=epochs,
        )
        self.write(self.exact_topic, segment.key(), segment.value())
        return segment

    @property
    def key(self) -> bytes:
        return encode_key(SourceKey(cluster=self.alias, topic=TP.topic, partition=TP.partition))

    def copy(self, count: int, *, commit: bool = True) -> str:
        """Write records to the remote topic, in a transaction; return its name."""
        remote = f"{self.alias}.{TP.topic}"
        if remote not in self.target.admin.list_topics(timeout=10).topics:
            self.target.create_topic(remote)
        producer = Producer(
            {"bootstrap.servers": self.target.bootstrap, "log_level": 0, "transactional.id": unique_name("copies")}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(remote, value=b"copy", partition=0)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        return remote

    def write(self, topic: str, key: bytes, value: bytes | None) -> None:
        producer = Producer({"bootstrap.servers": self.target.bootstrap, "log_level": 0})
        producer.produce(topic, key=key, value=value, partition=0)
        assert producer.flush(30) == 0

    def report_topic_ids(self, ids: TopicIds) -> set[str]:
        return self.leases.take_topic_ids(
            SourceTaskRecord(source_task=0, epoch=1, version=0, partitions=frozenset({TP}), topic_ids={TP.topic: ids})
        )

    async def lease(self) -> tuple[SourceTaskLease, PartitionLease]:
        await self.leases.refresh([TP])
        lease = self.leases.lease(0, [TP], epoch=1, restart=0, producer=None, drain=False)
        return lease, lease.partitions[0]


@asynccontextmanager
async def leases(target: KafkaCluster, *, policy: str | None = None, **own: str) -> AsyncIterator[LeaseFixture]:
    """``policy``: a replication.policy.class; ``own``: properties that begin with mm2."""
    a, b = unique_name("A"), unique_name("B")
    file = scratch.directory("leases") / "mm2.properties"
    properties = one_flow(target, target, aliases=(a, b), topics=".*")
    properties |= {f"mm2.{k}": v for k, v in own.items()}
    properties |= {} if policy is None else {"replication.policy.class": policy}
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    settings = load(file).settings
    assert settings is not None
    flow = next(one for one in settings.flows if one.enabled)
    target.create_topic(f"mm2-offsets.{a}.internal", config={"cleanup.policy": "compact"})
    async with Cluster(flow.clients.of(ClientRole.SHARED_ADMIN)) as cluster:
        offsets = StoredSourceOffsets(cluster, f"mm2-offsets.{a}.internal", flow.flow, source_alias=a, partitions=1)
        losses = LossStore(flow, cluster, ControlProducer(cluster), lambda: None)
        given = LeaseFixture(
            target=target, settings=flow, leases=LeaseBuilder(flow, ClusterAdmin(cluster), offsets, losses), alias=a
        )
        given.report_topic_ids(OLD)
        yield given


async def test_start_offset_of_a_partition(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b) as given:
        lease, partition = await given.lease()
        assert lease.exact_offsets is not None
        assert lease.exact_offsets.topic == given.exact_topic
        assert (partition.start_offset, partition.topic_ids, partition.last_segment) == (None, OLD, None)
        given.store(99)
        given.copied(OLD, 1)
        given.copied(OLD, 0)
        given.write(given.exact_topic, b"garbage", b"garbage")
        _, partition = await given.lease()
        assert (partition.start_offset, partition.topic_recreated) == (100, False)
        assert partition.last_segment is not None
        assert segment_from_text(partition.last_segment).sequence == 1, "the highest sequence"
        assert given.leases.warnings == []


async def test_a_journal_continues_after_segments_that_cannot_be_read(cluster_b: KafkaCluster) -> None:
    """They are those of another version, or damaged: as the newest one, in the middle, and in the key."""
    other_version = b"\0\2"
    async with leases(cluster_b) as given:
        await given.lease()  # creates the topic
        given.store(99)
        key = SegmentKey(TP, 0, 3)
        given.copied(OLD, 2)
        given.write(given.exact_topic, key.encode(), other_version)
        _, partition = await given.lease()
        assert partition.start_offset == 100
        continued = segment_from_text(partition.last_segment or "")
        assert (continued.sequence, continued.after_gap, continued.before) == (4, True, CopiedUpTo(100, 100))
        given.copied(OLD, 3)
        given.write(given.exact_topic, other_version + key._replace(sequence=7).encode()[2:], b"")
        _, partition = await given.lease()
        assert segment_from_text(partition.last_segment or "").sequence == 8
        given.copied(OLD, 9)
        _, partition = await given.lease()
        continued = segment_from_text(partition.last_segment or "")
        assert (continued.sequence, continued.after_gap) == (9, False)


async def test_a_partition_whose_map_cannot_be_read_is_held_if_its_offset_is_gone(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b) as given:
        await given.lease()  # creates the topic
        version_0 = b"\0\0" + SegmentKey(TP, 0, 0).encode()[2:14] + bytes(4)
        given.write(given.exact_topic, version_0, b"\0\0" + bytes(80))
        given.store(99)
        _, partition = await given.lease()
        continued = segment_from_text(partition.last_segment or "")
        assert (partition.start_offset, continued.sequence, continued.after_gap) == (100, 0, True)
        given.write(given.offsets_topic, given.key, None)
        await given.leases.refresh([TP])
        (_, partition), _ = await given.lease(), None
        assert partition.start_offset is None, "the end of the map is unknown"


async def test_a_partition_that_is_copied_again(cluster_b: KafkaCluster) -> None:
    """The copies behind its start are the first ones: they do not show how far a lost owner has copied it again."""
    async with leases(cluster_b) as given:
        await given.lease()  # creates the topic of the map
        given.copied(OLD)
        given.store(59)
        await given.leases.refresh([TP])
        repeats = Repeats()
        (end,) = given.leases.stored_ends([TP], repeats)
        assert (end.position, end.remote_position) == (60, 60)
        repeat = Repeat(
            partition=TP,
            number=2,
            state=RepeatState.STARTED,
            first=60,
            until=100,
            at=1,
            changed=1,
            by="alice",
            topic_id=OLD.source,
        )
        repeats.take(*encode_repeat(repeat))
        assert given.leases.stored_ends([TP], repeats) == []
        lease = given.leases.lease(0, [TP], epoch=1, restart=0, producer=None, drain=False, repeats=repeats)
        (partition,) = lease.partitions
        assert (partition.start_offset, partition.repeat, partition.copied_until) == (60, 2, 100)


async def test_leader_epochs_of_the_copied_records(cluster_b: KafkaCluster) -> None:
    """They are unknown where Java has copied since, and in a recreated topic."""
    epochs = (EpochStart(3, 0), EpochStart(4, 60))
    async with leases(cluster_b) as given:
        await given.lease()  # creates the topic
        given.copied(OLD, epochs=epochs)
        for stored, known in ((99, epochs), (59, epochs[:1]), (100, ())):
            given.store(stored)
            assert (await given.lease())[1].leader_epochs == known
        given.store(99)
        given.report_topic_ids(NEW)
        assert (await given.lease())[1].leader_epochs == ()


async def test_stored_offset_that_is_gone(cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    """The offsets topic was deleted, or its records expired: copying continues where the exact offsets end."""
    async with leases(cluster_b) as given:
        await given.lease()  # creates the topic of the exact offsets
        given.copied(OLD)
        assert (await given.lease())[1].start_offset == 100
        assert (await given.lease())[1].last_segment is not None
        (end,) = given.leases.stored_ends([TP], Repeats())
        assert (end.position, end.remote_position) == (100, 100), "what was copied after it can be found"
        (warning,) = given.leases.warnings
        assert warning == (
            f"the stored offset of orders-0 is gone from {given.offsets_topic}; continuing at offset 100, where the"
            " exact offset map ends"
        )
        assert caplog.text.count(warning) == 1
        given.report_topic_ids(ELSEWHERE)
        assert (await given.lease())[1].start_offset is None, "the copies are gone, too"


async def test_removed_offset_is_a_decision_to_start_again(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b) as given:
        await given.lease()
        given.copied(OLD)
        given.store(99)
        given.write(given.offsets_topic, given.key, None)
        assert (await given.lease())[1].start_offset is None
        assert given.leases.warnings == []


async def test_a_partition_with_copies_and_without_an_offset_is_held(
    cluster_b: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator decides: a tombstone starts it, a stored offset tells where to continue."""
    async with leases(cluster_b) as given:
        given.copy(3)
        await given.lease()
        state, text = given.leases.held[TP]
        command = f"mm2 accept-loss FILE --flow '{given.settings.flow}' --topic orders --partition 0"
        assert (state, is_lost_offset(TP, text)) == (TaskState.FAILED, True)
        assert text == (
            f"no offset of orders-0 is stored in {given.offsets_topic}, although {given.alias}.orders-0 has records:"
            " they would be copied again, or others left out. Its stored offset was deleted or expired, or another"
            f" program copied them. To start it at auto.offset.reset = earliest: {command}"
        )
        await given.lease()
        assert caplog.text.count(command) == 1, "it is logged once"
        given.write(given.offsets_topic, given.key, None)
        assert (await given.lease())[1].start_offset is None
        assert given.leases.held == {}
    async with leases(cluster_b, start="2026-01-01T00:00:00Z") as given:
        given.copy(3)
        await given.lease()
        assert "To start it at the time of mm2.start: " in str(given.leases.held[TP][1])
        given.store(6)
        assert (await given.lease())[1].start_offset == 7
        assert given.leases.held == {}


async def test_only_copies_hold_a_partition(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b) as given:
        given.copy(3, commit=False)
        await given.lease()
        assert given.leases.held == {}, "markers, and what was aborted"
        given.copy(3)
        await given.lease()
        assert given.leases.held.keys() == {TP}, "a lane stores a start before it copies"
        given.store(-1)
        await given.lease()
        assert given.leases.held == {}
    async with leases(cluster_b) as given:
        remote = given.copy(3)
        cluster_b.admin.delete_records([ClientPartition(remote, 0, 3)])[ClientPartition(remote, 0)].result(30)
        await given.lease()
        assert given.leases.held.keys() == {TP}, "they have expired"
        await given.leases.refresh([])
        assert given.leases.held == {}, "another node runs it"
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    async with leases(cluster_b, policy=identity) as given:
        write(cluster_b.bootstrap, cluster_b.create_topic(TP.topic), plain(3))
        await given.lease()
        assert given.leases.held == {}, "anyone can have written them"
        cluster_b.delete_topic(TP.topic)


async def test_copies_of_a_lane_that_has_just_stored_its_start_hold_nothing(cluster_b: KafkaCluster) -> None:
    """The start is stored, and records are copied, between the look at the offsets and that at the copies."""
    async with leases(cluster_b) as given:
        find = RemoteCopies.find

        async def find_later(self: RemoteCopies, partitions: Collection[TopicPartition]) -> FoundCopies:
            given.store(-1)
            given.copy(3)
            return await find(self, partitions)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RemoteCopies, "find", find_later)
            assert (await given.lease())[1].start_offset == 0
        assert given.leases.held == {}


async def test_a_partition_waits_while_it_is_unknown_whether_it_has_copies(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b) as given, Cluster(ClientSettings(bootstrap_servers=("localhost:1",))) as gone:
        found = await RemoteCopies(given.settings, gone).find([TP])
    assert (set(found.copied), set(found.unknown)) == (set(), {TP})


async def test_topic_recreated_while_no_node_ran(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b) as given:
        await given.lease()
        given.store(99)
        given.copied(TopicIds(UUID(int=77), OLD.remote))
        _, partition = await given.lease()
        assert (partition.start_offset, partition.topic_recreated, partition.topic_ids) == (0, True, OLD)
        (warning,) = given.leases.warnings
        assert warning.startswith(f"topic orders {RECREATED} on {given.alias}; replicating it from the beginning")


@pytest.mark.parametrize("translation", ["exact", "compatible"])
async def test_topic_recreated_while_the_node_runs(cluster_b: KafkaCluster, translation: str) -> None:
    async with leases(cluster_b, **{"offset.translation": translation}) as given:
        given.store(99)
        await given.lease()
        assert given.report_topic_ids(OLD) == set()
        assert given.report_topic_ids(NEW) == {"orders"}
        given.store(119)  # by the lane, for the old topic, before it notices
        lease, partition = await given.lease()
        assert (lease.exact_offsets is None) is (translation == "compatible")
        assert (partition.start_offset, partition.topic_recreated, partition.topic_ids) == (0, True, NEW)
        given.store(RECREATED_TOPIC)  # by the lane that starts
        assert [(await given.lease())[1].start_offset, (await given.lease())[1].topic_recreated] == [0, False]
        given.store(29)
        assert (await given.lease())[1].start_offset == 30
        assert len(given.leases.warnings) == 1


async def test_a_partition_that_was_empty_at_its_start(cluster_b: KafkaCluster) -> None:
    """It starts at 0, whatever auto.offset.reset says; and that is not a restart of a recreated topic."""
    async with leases(cluster_b, **{"offset.translation": "compatible"}) as given:
        assert (await given.lease())[1].start_offset is None
        assert given.report_topic_ids(NEW) == {"orders"}
        given.store(-1)  # by the lane of the old topic, before it notices
        given.store(5)
        _, partition = await given.lease()
        assert (partition.start_offset, partition.topic_recreated) == (0, True), "offset 5 is one of the old topic"
        given.store(RECREATED_TOPIC)
        given.store(2)
        _, partition = await given.lease()
        assert (partition.start_offset, partition.topic_recreated) == (3, False)
        given.store(-1)
        _, partition = await given.lease()
        assert (partition.start_offset, partition.topic_recreated) == (0, False)


async def test_remote_topic_recreated(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b) as given:
        await given.lease()
        given.store(99)
        given.copied(ELSEWHERE)
        _, partition = await given.lease()
        assert (partition.start_offset, partition.topic_recreated) == (100, False), (
            "copied records are not copied again"
        )
        (warning,) = given.leases.warnings
        assert RECREATED in warning
        assert warning.startswith("remote topic ")
        assert given.report_topic_ids(ELSEWHERE) == {"orders"}


@pytest.mark.parametrize(("partitions", "policy"), [(1, "delete"), (2, "compact")])
async def test_exact_offsets_topic_with_wrong_settings(cluster_b: KafkaCluster, partitions: int, policy: str) -> None:
    """The flow copies without exact offsets and reports the reason. After a fix the next lease has them."""
    async with leases(cluster_b) as given:
        cluster_b.create_topic(given.exact_topic, partitions, config={"cleanup.policy": policy})
        given.store(99)
        lease, partition = await given.lease()
        assert (lease.exact_offsets, partition.start_offset) == (None, 100)
        (warning,) = given.leases.warnings
        assert warning.startswith("cannot write exact offsets: cluster B-")
        assert given.exact_topic in warning
        cluster_b.admin.delete_topics([given.exact_topic])[given.exact_topic].result(30)
        wait_until(
            lambda: given.exact_topic not in cluster_b.admin.list_topics(timeout=10).topics, 30, "the topic is deleted"
        )
        lease, _ = await given.lease()
        assert lease.exact_offsets is not None
        assert given.leases.warnings == []
