"""What leases say of stored offsets and exact offsets, by what really stands in the target's topics."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import javaproperties
import pytest
from confluent_kafka import Producer

from mm2.config.flow_clients import ClientRole
from mm2.config.load import load
from mm2.core.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.exact_offset_records import CopiedRange, Reach, Segment, TopicIds
from mm2.core.lease import PartitionLease, SlotLease
from mm2.core.names import TopicPartition
from mm2.core.slot_records import SlotRecord
from mm2.kafka.admin import ClusterAdmin
from mm2.kafka.cluster import Cluster
from mm2.node.slot_leases import SlotLeases
from mm2.node.source_offsets import SourceOffsets
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.settings import one_flow

TP = TopicPartition("orders", 0)
OLD, NEW = TopicIds(UUID(int=1), UUID(int=2)), TopicIds(UUID(int=3), UUID(int=2))
ELSEWHERE = TopicIds(UUID(int=1), UUID(int=4))
MADE_ANEW = "was deleted and made anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Leases of a flow of its own, and its topics."""

    target: KafkaCluster
    leases: SlotLeases
    alias: str

    @property
    def exact_topic(self) -> str:
        return f"mm2-exact-offsets.{self.alias}.internal"

    @property
    def offsets_topic(self) -> str:
        return f"mm2-offsets.{self.alias}.internal"

    def store(self, offset: int) -> None:
        """The source offset of what was copied last."""
        key = encode_key(SourceKey(cluster=self.alias, topic=TP.topic, partition=TP.partition))
        self.write(self.offsets_topic, key, encode_offset(offset))

    def copied(self, ids: TopicIds, sequence: int = 0) -> Segment:
        """A segment of 100 records, as a lane writes it."""
        segment = Segment(
            topic_partition=TP,
            slot=sequence,
            sequence=sequence,
            era=0,
            topic_ids=ids,
            before=Reach(),
            through=-1,
            ranges=(CopiedRange(0, 0, 100),),
        )
        self.write(self.exact_topic, segment.key(), segment.value())
        return segment

    def write(self, topic: str, key: bytes, value: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.target.bootstrap, "log_level": 0})
        producer.produce(topic, key=key, value=value, partition=0)
        assert producer.flush(30) == 0

    def told(self, ids: TopicIds) -> set[str]:
        return self.leases.told(
            SlotRecord(slot=0, epoch=1, version=0, partitions=frozenset({TP}), topic_ids={TP.topic: ids})
        )

    async def lease(self) -> tuple[SlotLease, PartitionLease]:
        await self.leases.refresh()
        lease = self.leases.lease(0, [TP], epoch=1, restart=0, drain=False)
        return lease, lease.partitions[0]


@asynccontextmanager
async def leases(target: KafkaCluster, **own: str) -> AsyncIterator[Given]:
    a, b = unique_name("A"), unique_name("B")
    file = scratch.directory("leases") / "mm2.properties"
    properties = one_flow(target, target, aliases=(a, b), topics=".*") | {f"mm2.{k}": v for k, v in own.items()}
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    settings = load(file).settings
    assert settings is not None
    flow = next(one for one in settings.flows if one.enabled)
    target.create_topic(f"mm2-offsets.{a}.internal", config={"cleanup.policy": "compact"})
    async with Cluster(flow.clients.of(ClientRole.SHARED_ADMIN)) as cluster:
        offsets = SourceOffsets(cluster, f"mm2-offsets.{a}.internal", flow.flow, partitions=1)
        given = Given(target=target, leases=SlotLeases(flow, ClusterAdmin(cluster), offsets), alias=a)
        given.told(OLD)
        yield given


async def test_where_a_partition_goes_on(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b, **{"offset.translation.window": "64"}) as given:
        lease, partition = await given.lease()
        assert lease.exact_offsets is not None
        assert (lease.exact_offsets.topic, lease.exact_offsets.slots) == (given.exact_topic, 2)
        assert (partition.start_offset, partition.topic_ids, partition.last_segment) == (None, OLD, None)
        given.store(99)
        given.copied(OLD, 1)
        given.copied(OLD, 0)
        given.write(given.exact_topic, b"garbage", b"garbage")
        _, partition = await given.lease()
        assert (partition.start_offset, partition.made_anew) == (100, False)
        assert partition.last_segment is not None
        assert b64decode(partition.last_segment)[2:10] == (1).to_bytes(8, "big"), "the one of the highest sequence"
        assert given.leases.warnings == []


async def test_a_topic_made_anew_while_no_node_ran(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b) as given:
        await given.lease()
        given.store(99)
        given.copied(TopicIds(UUID(int=77), OLD.remote))
        _, partition = await given.lease()
        assert (partition.start_offset, partition.made_anew, partition.topic_ids) == (0, True, OLD)
        (warning,) = given.leases.warnings
        assert warning.startswith(f"topic orders {MADE_ANEW} on {given.alias}: it is copied from its beginning")


@pytest.mark.parametrize("translation", ["exact", "compatible"])
async def test_a_topic_made_anew_while_the_node_runs(cluster_b: KafkaCluster, translation: str) -> None:
    async with leases(cluster_b, **{"offset.translation": translation}) as given:
        given.store(99)
        await given.lease()
        assert given.told(OLD) == set()
        assert given.told(NEW) == {"orders"}
        given.store(119)  # by the lane, of the old topic, before it noticed
        lease, partition = await given.lease()
        assert (lease.exact_offsets is None) is (translation == "compatible")
        assert (partition.start_offset, partition.made_anew, partition.topic_ids) == (0, True, NEW)
        given.store(-1)  # by the lane that begins
        assert [(await given.lease())[1].start_offset, (await given.lease())[1].made_anew] == [0, False]
        given.store(29)
        assert (await given.lease())[1].start_offset == 30
        assert len(given.leases.warnings) == 1


async def test_a_remote_topic_made_anew(cluster_b: KafkaCluster) -> None:
    async with leases(cluster_b) as given:
        await given.lease()
        given.store(99)
        given.copied(ELSEWHERE)
        _, partition = await given.lease()
        assert (partition.start_offset, partition.made_anew) == (100, False), "what was copied is not copied again"
        (warning,) = given.leases.warnings
        assert MADE_ANEW in warning
        assert warning.startswith("remote topic ")
        assert given.told(ELSEWHERE) == {"orders"}


@pytest.mark.parametrize(("partitions", "policy"), [(1, "delete"), (2, "compact")])
async def test_a_topic_that_is_not_as_it_must_be(cluster_b: KafkaCluster, partitions: int, policy: str) -> None:
    """The flow copies without exact offsets and says why; once somebody has repaired it, the next lease has them."""
    async with leases(cluster_b) as given:
        cluster_b.create_topic(given.exact_topic, partitions, config={"cleanup.policy": policy})
        given.store(99)
        lease, partition = await given.lease()
        assert (lease.exact_offsets, partition.start_offset) == (None, 100)
        (warning,) = given.leases.warnings
        assert warning.startswith("exact offsets are not written: cluster B-")
        assert given.exact_topic in warning
        cluster_b.admin.delete_topics([given.exact_topic])[given.exact_topic].result(30)
        lease, _ = await given.lease()
        assert lease.exact_offsets is not None
        assert given.leases.warnings == []
