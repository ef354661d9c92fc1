"""Source offsets in an uncommitted transaction, as left by a killed MirrorMaker with exactly-once support."""

from __future__ import annotations

from collections.abc import Callable

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.node.source.source_offsets import StoredSourceOffsets
from tests.lab.cluster import KafkaCluster
from tests.lab.records import DELIVERED, Outgoing, Writer, wait_for_markers, write_transactions


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
        offsets = StoredSourceOffsets(cluster, topic, Flow("A", "B"), source_alias="A", partitions=25)
        await offsets.refresh()
        assert offsets.position(partition) == 100


async def test_an_open_transaction_does_not_hide_committed_offsets(
    cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """Source tasks share the partitions of the topic: each has to see its own last commit while others are writing."""
    topic = cluster_b.create_topic(unique("mm2-offsets"), 25, config={"cleanup.policy": "compact"})
    mine, other = TopicPartition("orders", 0), TopicPartition("orders", 1)

    def stored(partition: TopicPartition, offset: int) -> Outgoing:
        key = encode_key(SourceKey(cluster="A", topic=partition.topic, partition=partition.partition))
        return Outgoing(key=key, value=encode_offset(offset), partition=3)

    own_id, other_id = unique("A-mm2"), unique("A-mm2")
    blocking = Writer(cluster_b.bootstrap, settings={"transactional.id": other_id})
    blocking.transactions.init_transactions(DELIVERED)
    blocking.transactions.begin_transaction()
    blocking.send(topic, stored(other, 49))
    blocking.flush()
    write_transactions(cluster_b.bootstrap, topic, [([stored(mine, 99)], True)], transactional_id=own_id)
    async with Cluster(ClientSettings(bootstrap_servers=(cluster_b.bootstrap,), alias="B")) as cluster:
        offsets = StoredSourceOffsets(cluster, topic, Flow("A", "B"), source_alias="A", partitions=25)
        await offsets.refresh()
        assert (offsets.position(mine), offsets.position(other)) == (100, None)
        blocking.transactions.commit_transaction(DELIVERED)
        wait_for_markers(cluster_b.bootstrap, other_id)
        write_transactions(cluster_b.bootstrap, topic, [([stored(mine, 199)], False)], transactional_id=own_id)
        await offsets.refresh()
        assert (offsets.position(mine), offsets.position(other)) == (100, 50)
