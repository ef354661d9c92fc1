"""Changes of single topic configs, checked by an independent client."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from mm2.core.topics.topic_configs import DeleteConfig, SetConfig
from mm2.kafka.admin.topic_configs import alter_topic_configs, describe_topic_configs
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import ClusterOf
from tests.lab.jars import VERSIONS
from tests.lab.waiting import until

SOON = 30.0  # seconds: the controller answers before the broker has applied a change


def own_configs(kafka: KafkaCluster, topic: str) -> dict[str, str]:
    (future,) = kafka.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: str(entry.value) for name, entry in future.result(30).items() if entry.source == own}


@pytest.mark.parametrize("version", VERSIONS)
async def test_only_named_configs_change(cluster_of: ClusterOf, unique: Callable[[str], str], version: str) -> None:
    kafka = cluster_of(version)
    orders = kafka.create_topic(unique("orders"), config={"retention.ms": "1000", "segment.bytes": "1048576"})
    other = kafka.create_topic(unique("other"))
    async with connected(kafka) as cluster:
        outcome = await alter_topic_configs(
            cluster,
            {
                orders: [
                    DeleteConfig(name="retention.ms", before="1000"),
                    SetConfig(name="cleanup.policy", value="compact,delete", before="delete"),
                ],
                other: [
                    SetConfig(name="retention.ms", value="5000", before=None),
                    SetConfig(name="max.message.bytes", value="lots", before=None),
                ],
                "no-such": [SetConfig(name="retention.ms", value="1", before=None)],
            },
        )
        assert outcome[orders] is None
        assert code(outcome[other]) == ErrorCode.INVALID_CONFIG
        assert str(outcome[other]).startswith(f"cannot change configuration of topic {other}: Invalid value lots")
        assert code(outcome["no-such"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wanted = {"segment.bytes": "1048576", "cleanup.policy": "compact,delete"}
        await until(lambda: own_configs(kafka, orders) == wanted, SOON, "the broker has the changes")
        assert own_configs(kafka, other) == {}, "either all changes of a topic are applied or none"

        configs = (await describe_topic_configs(cluster, [orders]))[orders]
        assert not isinstance(configs, BrokerError)
        (future,) = kafka.admin.describe_configs([ConfigResource(ResourceType.TOPIC, orders)]).values()
        seen = {entry.name: (entry.value, entry.source, entry.is_read_only) for entry in future.result(30).values()}
        assert {e.name: (e.value, int(e.source), e.read_only) for e in configs.values()} == seen


async def test_many_topics_in_few_requests(
    cluster_a: KafkaCluster, unique: Callable[[str], str], requests: list[str]
) -> None:
    names = [cluster_a.create_topic(unique(f"n{number}")) for number in range(20)]
    async with connected(cluster_a) as cluster:
        changes = {name: [SetConfig(name="retention.ms", value="4000", before=None)] for name in names}
        await cluster.any_node()
        requests.clear()
        assert set((await alter_topic_configs(cluster, changes)).values()) == {None}
        assert len(requests) == 1
    await until(
        lambda: own_configs(cluster_a, names[-1]) == {"retention.ms": "4000"}, SOON, "the broker has the change"
    )


def code(outcome: BrokerError | None) -> int | None:
    return outcome.code if outcome else None
