"""Source offsets in an uncommitted transaction, as left by a killed MirrorMaker with exactly-once support."""

from __future__ import annotations

from collections.abc import Callable

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.node.source.source_offsets import StoredSourceOffsets
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing, write_transactions


async def test_only_committed_offsets_count(cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    """Otherwise records of the aborted transaction would be treated as copied and be lost."""
    topic = cluster_b.create_topic(unique("mm2-offsets"), 25, config={"cleanup.policy": "compact"})
    partition = TopicPartition("orders", 0)
    key = encode_key(SourceKey(cluster="A", topic=partition.topic, partition=partition.partition))
    transactions = [
        ([Outgoing(key=key, value=encode_offset(99), partition=3)], True),
        ([Outgoing(key=key, value=encode_offset(199), partition=3)], False),
    ]
    write_transactions(cluster_b.bootstrap, topic, transactions, transactional_id=unique("A-mm2"))
    async with Cluster(ClientSettings(bootstrap_servers=(cluster_b.bootstrap,), alias="B")) as cluster:
        offsets = StoredSourceOffsets(cluster, topic, Flow("A", "B"), partitions=25)
        await offsets.refresh()
        assert offsets.position(partition) == 100
