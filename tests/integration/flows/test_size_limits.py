"""Batches that the target rejects as too large: they are split at max.message.bytes, which is read from the topic."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from flows.batch.blob import batches
from tests.integration.flows.lane import COPIED, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.records import Outgoing, write
from tests.lab.waiting import until, wait_until

Unique = Callable[[str], str]
BIG = {"message.max.bytes": 3_000_000, "batch.size": 2_000_000, "linger.ms": 60_000}  # librdkafka's: batches are full
LIMIT = 77_777
LEAST_SEGMENT = 1_048_576  # that Kafka 4 accepts
RECORD_BYTES = 1_000
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def records(rng: random.Random, count: int) -> list[Outgoing]:
    """Values of which codecs save about half."""
    return [Outgoing(value=rng.randbytes(RECORD_BYTES // 2) + bytes(RECORD_BYTES // 2)) for _ in range(count)]


def produced(cluster: KafkaCluster, topic: str) -> list[int]:
    """Return the sizes of the batches in partition 0 of a topic, from its segment files."""
    log = b"".join(segment.read_bytes() for segment in sorted(cluster.broker(1).directory.glob(f"**/{topic}-0/*.log")))
    return [header.size for header, _ in batches(log, check_crcs=True)]


@pytest.mark.parametrize(
    ("codec", "config"),
    [
        ("none", {"max.message.bytes": LIMIT}),
        ("lz4", {"max.message.bytes": LIMIT}),
        ("none", {"max.message.bytes": 3_000_000, "segment.bytes": LEAST_SEGMENT}),
    ],
)
async def test_batches_are_split_at_the_limit_of_the_topic(
    cluster_a: KafkaCluster,
    cluster_b: KafkaCluster,
    unique: Unique,
    rng: random.Random,
    codec: str,
    config: dict[str, int],
) -> None:
    """A batch above the limit becomes as few batches as fit, not many small ones."""
    limit = min(config.values())
    topic = unique("limit")
    cluster_a.create_topic(topic, config={"max.message.bytes": "3000000"})
    write(cluster_a.bootstrap, topic, records(rng, 6_000), codec=codec, settings=BIG)
    whole = produced(cluster_a, topic)
    assert max(whole) > 1.5 * limit
    remote_config = {name: str(value) for name, value in config.items()}
    async with copying(cluster_a, cluster_b, {topic: 1}, remote_config=remote_config) as source_task:
        assert (await source_task.copied(topic)).exact
        await source_task.caught_up(topic)
        assert source_task.batches["too-large"] > 0
    sizes = produced(cluster_b, f"A.{topic}")
    assert 0.9 * limit < max(sizes) <= limit
    fewest = sum(math.ceil(size / limit) for size in whole)
    assert len(sizes) <= 1.2 * fewest, f"{sorted(sizes)}: none is much smaller than necessary"


async def test_a_limit_that_is_lowered_while_copying_is_read_again(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, rng: random.Random
) -> None:
    topic = unique("lowered")
    cluster_a.create_topic(topic, config={"max.message.bytes": "3000000"})
    config = {"max.message.bytes": str(LIMIT)}
    async with copying(cluster_a, cluster_b, {topic: 1}, remote_config=config) as source_task:
        write(cluster_a.bootstrap, topic, records(rng, 1_000), settings=BIG)
        assert (await source_task.copied(topic)).exact
        before = len(produced(cluster_b, f"A.{topic}"))
        resource = ConfigResource(
            ResourceType.TOPIC,
            f"A.{topic}",
            incremental_configs=[
                ConfigEntry("max.message.bytes", "33333", incremental_operation=AlterConfigOpType.SET)
            ],
        )
        cluster_b.admin.incremental_alter_configs([resource])[resource].result(30)
        write(cluster_a.bootstrap, topic, records(rng, 1_000), settings=BIG)
        assert (await source_task.copied(topic)).exact
        later = produced(cluster_b, f"A.{topic}")[before:]
        assert 0.9 * 33_333 < max(later) <= 33_333


async def test_without_permission_to_read_the_limit_it_is_found_by_halving(
    cluster_a: KafkaCluster, start_cluster: StartCluster, unique: Unique, rng: random.Random
) -> None:
    target = await asyncio.to_thread(start_cluster, "closed", properties=AUTHORIZER)
    topic = unique("unreadable")
    cluster_a.create_topic(topic, config={"max.message.bytes": "3000000"})
    write(cluster_a.bootstrap, topic, records(rng, 1_000), settings=BIG)
    remote = target.create_topic(f"A.{topic}", config={"max.message.bytes": str(LIMIT)})
    acls = [
        acl(remote, AclOperation.ALL, AclPermissionType.ALLOW),
        acl(remote, AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY),
    ]
    for future in target.admin.create_acls(acls).values():
        future.result(30)
    resource = ConfigResource(ResourceType.TOPIC, remote)

    def is_denied() -> bool:
        return target.admin.describe_configs([resource])[resource].exception(30) is not None

    await asyncio.to_thread(wait_until, is_denied, COPIED, "the broker applies the new ACLs")
    async with copying(cluster_a, target, {topic: 1}, create=False) as source_task:
        assert (await source_task.copied(topic)).exact
        await until(lambda: source_task.partition(topic).error is None, COPIED, "there is no error")
        sizes = produced(target, remote)
        assert LIMIT / 2 - 2 * RECORD_BYTES < max(sizes) <= LIMIT


def acl(topic: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission
    )
