"""Producer ids of partitions, and the change to writes without idempotence."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from flows.target.producer_ids import ProducerIds
from mm2.core.lanes.lease import PartitionLease
from mm2.core.settings.client import ProduceSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.protocol.fetch_request import FetchedPartition
from tests.integration.flows.lane import client
from tests.lab.batches import Batch, Record
from tests.lab.cluster import KafkaCluster
from tests.unit.flows.replicators import RecordingListener, replicator_of


async def test_a_producer_id_that_arrives_after_idempotence_was_disabled_is_not_used(cluster_b: KafkaCluster) -> None:
    """The target rejected another partition's batch with CLUSTER_AUTHORIZATION_FAILED meanwhile."""
    spawned: list[Coroutine[Any, Any, None]] = []
    lease = PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=0)
    replicator = replicator_of(lease, RecordingListener())
    batch = Batch(records=[Record(0, 0, b"k", b"v")]).encode()
    replicator.fetched(0, FetchedPartition("orders", 3, 0, 1, 1, 0, (), -1, batch), 1, 0.0, 0.0)
    async with Cluster(client(cluster_b, "B")) as cluster:
        ids = ProducerIds(cluster, ProduceSettings(), spawned.append)
        ids.assign(replicator)
        (request,) = spawned
        assert replicator.needs_producer_id
        ids.disable_idempotence("not permitted")
        ids.assign(replicator)
        entry = replicator.next_batch(0.0)
        assert entry is not None
        await request  # with a batch in flight
    assert not ids.is_idempotent
    assert replicator.batches_in_flight == 1
    replicator.acknowledged(entry, 0, 0.0, 0.0)
    assert replicator.position == 1
