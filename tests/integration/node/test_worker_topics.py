"""Worker topics of a flow that has run before: without its stored offsets, everything would be copied again.

Where remote topics have other names, partitions are looked at one by one: tests/integration/node/test_lease_builder.py.
"""

from __future__ import annotations

import javaproperties
import pytest
from confluent_kafka import Producer, TopicPartition

from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.kafka.admin.internal_topics import WrongInternalTopic
from mm2.node.store.worker_topics import WorkerTopics
from tests.integration.kafka.clients import connected
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.settings import one_flow
from tests.lab.topic_configs import alter


def settings_of(target: KafkaCluster, translation: str) -> FlowSettings:
    """A flow with aliases, and so with internal topics, of its own."""
    a, b = unique_name("A"), unique_name("B")
    file = scratch.directory("worker-topics") / "mm2.properties"
    own = {
        "mm2.offset.translation": translation,
        f"{b}.offset.storage.partitions": "2",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    }
    properties = one_flow(target, target, aliases=(a, b), topics="orders") | own
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    settings = load(file).settings
    assert settings is not None
    return next(one for one in settings.flows if one.enabled)


def write(cluster: KafkaCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    producer.produce(topic, key=b"key", value=b"value", partition=0)
    assert producer.flush(30) == 0


async def test_flow_without_its_stored_offsets_waits(cluster_b: KafkaCluster) -> None:
    settings = settings_of(cluster_b, "compatible")
    offsets = settings.storage.offsets.name
    async with connected(cluster_b) as target:
        await WorkerTopics.ensure(settings, target)
        write(cluster_b, settings.storage.configs.name)
        await WorkerTopics.ensure(settings, target)  # the flow ended before an offset was stored
        write(cluster_b, offsets)
        await WorkerTopics.ensure(settings, target)

        alter(cluster_b, offsets, "cleanup.policy", "delete")
        for deleted in cluster_b.admin.delete_records([TopicPartition(offsets, 0, -1)]).values():
            deleted.result(30)
        alter(cluster_b, offsets, "cleanup.policy", "compact")
        with pytest.raises(WrongInternalTopic, match="has lost all of its records, although the flow has run before"):
            await WorkerTopics.ensure(settings, target)

        cluster_b.delete_topic(offsets)
        with pytest.raises(WrongInternalTopic) as failed:
            await WorkerTopics.ensure(settings, target)
        assert f"topic {offsets} does not exist" in str(failed.value)
        assert f"kafka-topics.sh --create --topic {offsets} --partitions 2 --replication-factor 1" in str(failed.value)
        assert offsets not in cluster_b.admin.list_topics(timeout=10).topics

        cluster_b.create_topic(offsets, 2, config={"cleanup.policy": "compact"})  # as the message says
        await WorkerTopics.ensure(settings, target)


async def test_exact_offsets_replace_stored_ones(cluster_b: KafkaCluster) -> None:
    settings = settings_of(cluster_b, "exact")
    exact = cluster_b.create_topic(
        f"mm2-exact-offsets.{settings.flow.source}.internal", config={"cleanup.policy": "compact"}
    )
    async with connected(cluster_b) as target:
        await WorkerTopics.ensure(settings, target)
        write(cluster_b, settings.storage.configs.name)
        write(cluster_b, exact)
        cluster_b.delete_topic(settings.storage.offsets.name)
        await WorkerTopics.ensure(settings, target)
