"""Creating topics, adding partitions, describing configs, and listing offsets."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import IsolationLevel
from mm2.core.topics.topic_configs import ConfigSource
from mm2.kafka.admin.topic_configs import describe_topic_configs
from mm2.kafka.admin.topics import NewTopic, create_partitions, create_topics
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, NoLeader, Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.kafka.clients import connected, led
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import ClusterOf, StartCluster
from tests.lab.jars import VERSIONS
from tests.lab.records import DELIVERED, Outgoing, Writer, write
from tests.lab.waiting import require_within, until

ISOLATION = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)


@pytest.mark.parametrize("version", VERSIONS)
async def test_results_are_reported_by_topic_with_the_broker_messages(
    cluster_of: ClusterOf, unique: Callable[[str], str], version: str
) -> None:
    kafka = cluster_of(version)
    plain, default, wide = (unique(stem) for stem in ("plain", "default", "wide"))
    async with connected(kafka) as cluster:
        outcome = await create_topics(
            cluster,
            [
                NewTopic(name=plain, partitions=3, replication_factor=1, configs={"retention.ms": "1234567"}),
                NewTopic(name=default, partitions=1, replication_factor=-1),
                NewTopic(name=wide, partitions=1, replication_factor=3),
                NewTopic(name="no name", partitions=1, replication_factor=1),
                NewTopic(name="config", partitions=1, replication_factor=1, configs={"no.such": "1"}),
            ],
        )
        assert outcome[plain] is None
        assert outcome[default] is None
        assert code(outcome[wide]) == ErrorCode.INVALID_REPLICATION_FACTOR
        assert "only 1 broker(s) are registered" in str(outcome[wide])
        assert code(outcome["no name"]) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert code(outcome["config"]) == ErrorCode.INVALID_CONFIG
        assert str(outcome["config"]).startswith("cannot create topic config: Unknown topic config name: no.such")

        again = await create_topics(cluster, [NewTopic(name=plain, partitions=9, replication_factor=1)])
        assert code(again[plain]) == ErrorCode.TOPIC_ALREADY_EXISTS

        grown = await create_partitions(cluster, {plain: 5, default: 1, "no-such": 2})
        assert grown[plain] is None
        assert code(grown[default]) == ErrorCode.INVALID_PARTITIONS
        assert code(grown["no-such"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await led(cluster, TopicPartition(plain, 4))
        assert len((await cluster.metadata([plain])).topics[plain].partitions) == 5

        configs = await describe_topic_configs(cluster, [plain, default, "no-such"])
        found = configs[plain]
        assert not isinstance(found, BrokerError)
        assert (found["retention.ms"].value, found["retention.ms"].source) == (
            "1234567",
            ConfigSource.DYNAMIC_TOPIC_CONFIG,
        )
        assert found["cleanup.policy"].source is ConfigSource.DEFAULT_CONFIG
        assert code(configs["no-such"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_broker_configs_are_distinguished_from_defaults(start_cluster: StartCluster) -> None:
    kafka = start_cluster(properties={"log.retention.ms": "7654321"})
    kafka.create_topic("orders")
    async with connected(kafka) as cluster:
        found = (await describe_topic_configs(cluster, ["orders"]))["orders"]
        assert not isinstance(found, BrokerError)
        assert (found["retention.ms"].value, found["retention.ms"].source) == (
            "7654321",
            ConfigSource.STATIC_BROKER_CONFIG,
        )


async def test_more_topics_than_one_response_contains(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    stem = unique("many")
    names = [f"{stem}-{number}" for number in range(55)]
    async with connected(cluster_a) as cluster:
        new = [NewTopic(name=name, partitions=1, replication_factor=1) for name in names]
        assert await create_topics(cluster, new) == dict.fromkeys(names)
        await led(cluster, *(TopicPartition(name, 0) for name in names))
        configs = await describe_topic_configs(cluster, names)
        assert not any(isinstance(one, BrokerError) for one in configs.values())
        assert set(configs) == set(names)
        ends = await list_offsets(cluster, [TopicPartition(name, 0) for name in names], OffsetSpec.LATEST)
        assert set(ends.values()) == {0}


async def test_unreachable_cluster_is_retried_until_the_deadline(
    breakable: KafkaCluster, unique: Callable[[str], str]
) -> None:
    breakable.broker(1).kill()
    new = NewTopic(name=(name := unique("orders")), partitions=1, replication_factor=1)
    async with connected(breakable) as cluster:
        began = time.monotonic()
        with pytest.raises(Unreachable):
            await create_topics(cluster, [new], timeout_ms=500)
        require_within(time.monotonic() - began, 15.0, "it gives up soon after its deadline of 0.5 s")
        breakable.broker(1).start()
        assert await create_topics(cluster, [new]) == {name: None}


async def test_earliest_latest_and_timestamp_offsets(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    name = cluster_a.create_topic(unique("offsets"), 3, config={"retention.ms": "-1"})  # its records are old
    one, two, empty, missing = (TopicPartition(name, number) for number in range(4))
    write(cluster_a.bootstrap, name, [Outgoing(value=b"x", partition=0, timestamp_ms=1_000 + n) for n in range(5)])
    write(cluster_a.bootstrap, name, [Outgoing(value=b"x", partition=1, timestamp_ms=1_000)])
    async with connected(cluster_a) as cluster:
        partitions = [one, two, empty]
        assert await list_offsets(cluster, partitions, OffsetSpec.LATEST) == {one: 5, two: 1, empty: 0}
        assert await list_offsets(cluster, partitions, OffsetSpec.EARLIEST) == dict.fromkeys(partitions, 0)
        assert await list_offsets(cluster, partitions, 1_002) == {one: 2, two: -1, empty: -1}

        mixed = await list_offsets(cluster, [one, missing], OffsetSpec.LATEST, timeout_ms=300)
        assert mixed[one] == 5
        assert isinstance(mixed[missing], NoLeader)


async def test_end_under_read_committed_is_the_last_stable_offset(
    cluster_a: KafkaCluster, unique: Callable[[str], str]
) -> None:
    name = cluster_a.create_topic(unique("transactions"))
    one = TopicPartition(name, 0)
    writer = Writer(cluster_a.bootstrap, settings={"transactional.id": unique("writer")})
    writer.transactions.init_transactions(DELIVERED)
    writer.transactions.begin_transaction()
    for _ in range(2):
        writer.send(name, Outgoing(value=b"x"))
    writer.flush()
    async with connected(cluster_a) as cluster:

        async def ends() -> tuple[object, object]:
            """Return the end offsets under read_uncommitted and read_committed."""
            found = [await list_offsets(cluster, [one], OffsetSpec.LATEST, isolation=level) for level in ISOLATION]
            return found[0][one], found[1][one]

        async def committed() -> bool:
            return await ends() == (3, 3)

        assert await ends() == (2, 0)
        writer.transactions.commit_transaction(DELIVERED)
        condition: Callable[[], bool | Awaitable[bool]] = committed
        await until(condition, 30.0, "the commit marker is in the log")


def code(outcome: object) -> int | None:
    return outcome.code if isinstance(outcome, BrokerError) else None
