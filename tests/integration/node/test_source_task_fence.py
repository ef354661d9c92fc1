"""Fencing of a source task's earlier owners by the target's brokers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from confluent_kafka.admin import AclOperation, ResourceType

from mm2.core.assignment.source_task_releases import SourceTaskRelease
from mm2.core.lanes.lease import TaskProducer
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.produce_request import ProduceRequest
from mm2.node.source.source_task_fence import FenceTimes, SourceTaskFence
from tests.integration.guarded.permissions import PASSWORD, USER, add, allowed, binding
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.waiting import until
from tests.unit.config import files

TASK = 3
LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))


class Releases:
    """What the status topic contains."""

    def __init__(self) -> None:
        self.last: SourceTaskRelease | None = None

    async def __call__(self, source_task: int) -> SourceTaskRelease | None:
        assert source_task == TASK
        return self.last


IMPATIENT = FenceTimes(no_coordinator_s=2.0, attempt_ms=500)


def fence_of(
    cluster: Cluster, directory: Path, group: str, releases: Releases, extra: str = "", **options: Any
) -> SourceTaskFence:
    """``options``: of `SourceTaskFence`."""
    settings = files.flow(directory, f"B.group.id = {group}\n{extra}")
    return SourceTaskFence(settings, cluster, releases, **options)


async def write(cluster: Cluster, producer: TaskProducer, partition: TopicPartition, sequence: int = 0) -> int:
    """Write one record outside transactions as this producer; return the broker's error code."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, producer.producer_id, producer.epoch, sequence, 1_000)
    builder.append(0, time.time_ns() // 1_000_000, b"k", f"epoch {producer.epoch}".encode(), [])
    leader = await cluster.leader(partition)
    request = ProduceRequest(acks=-1, timeout_ms=10_000, batches={partition: [bytes(builder.build())]})
    answer = await cluster.send(leader.node_id, request, purpose="test", timeout_ms=20_000)
    return int(answer.partitions[0].error)


async def test_earlier_owner_is_fenced_on_every_partition(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Also on partitions that the new owner has not written yet."""
    topic, group = cluster_b.create_topic(unique("A.orders"), partitions=3), unique("group")
    remote = [TopicPartition(topic, number) for number in range(3)]
    missing = TopicPartition(unique("missing"), 0)
    async with connected(cluster_b) as cluster:
        fence = fence_of(cluster, tmp_path, group, Releases())
        old, after_loss = await fence.acquire(TASK, [*remote, missing])
        assert old is not None
        assert not after_loss
        assert old.transactional_id == f"{group}-MirrorSourceConnector-{TASK}", "Java's"
        assert [await write(cluster, old, one) for one in remote[:2]] == [0, 0]
        assert end_offset_sum(cluster_b.bootstrap, topic) == 2, "nothing is fenced for the first owner"

        new, after_loss = await fence.acquire(TASK, [*remote, missing])
        assert new is not None
        assert after_loss
        assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)
        codes = [await write(cluster, old, one, sequence) for one, sequence in zip(remote, (1, 1, 0), strict=True)]
        assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH] * 3
        assert [await write(cluster, new, one) for one in remote] == [0, 0, 0]
        assert fence.warning is None
    found = read_topic(cluster_b.bootstrap, topic)
    assert {number: [(one.offset, one.content[1]) for one in records] for number, records in found.items()} == {
        0: [(0, b"epoch 0"), (2, b"epoch 1")],
        1: [(0, b"epoch 0"), (2, b"epoch 1")],
        2: [(1, b"epoch 1")],
    }, "at the cost of one offset of each partition"


async def test_orderly_release_needs_no_fencing(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, group, releases = cluster_b.create_topic(unique("A.orders")), unique("group"), Releases()
    remote = [TopicPartition(topic, 0)]
    async with connected(cluster_b) as cluster:
        fence = fence_of(cluster, tmp_path, group, releases)
        first, _ = await fence.acquire(TASK, remote)
        assert first is not None
        releases.last = SourceTaskRelease(source_task=TASK, producer_id=first.producer_id, epoch=first.epoch)
        assert not (await fence.acquire(TASK, remote)).after_loss
        assert end_offset_sum(cluster_b.bootstrap, topic) == 0
        assert (await fence.acquire(TASK, remote)).after_loss  # the second owner was lost
        assert end_offset_sum(cluster_b.bootstrap, topic) == 1


async def test_disabled_idempotence_disables_fencing(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    async with connected(cluster_b) as cluster:
        fence = fence_of(cluster, tmp_path, unique("g"), Releases(), "B.producer.enable.idempotence = false\n")
        assert not fence.is_enabled
        assert (await fence.acquire(TASK, [])).producer is None
        assert fence.warning is None


async def test_without_permission_source_tasks_run_without_fencing(
    start_cluster: StartCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kafka = start_cluster(listeners=(LISTENER,), users={USER: PASSWORD}, properties=AUTHORIZER)
    kafka.create_topic("A.orders")
    add(kafka, allowed(AclOperation.ALL, "A.orders"))
    login = PasswordLogin(mechanism=SaslMechanism.PLAIN, username=USER, password=PASSWORD)
    async with connected(
        kafka, LISTENER.label, security_protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=login
    ) as cluster:
        fence = fence_of(cluster, tmp_path, "A-mm2", Releases())
        remote = [TopicPartition("A.orders", 0)]
        assert (await fence.acquire(TASK, remote)).producer is None
        assert fence.warning is not None
        assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in fence.warning
        assert (
            "grant the node's principal WRITE on transactional IDs with prefix"
            " A-mm2-MirrorSourceConnector-" in fence.warning
        )
        assert not await fence.fences_again(TASK)
        add(
            kafka,
            binding(AclOperation.WRITE, f"A-mm2-MirrorSourceConnector-{TASK}", kind=ResourceType.TRANSACTIONAL_ID),
        )

        await until(partial(fence.fences_again, TASK), 60, "the permission is noticed")
        assert (await fence.acquire(TASK, remote)).producer is not None
        assert fence.warning is None
    assert "the target fences source tasks again" in caplog.text


async def test_without_a_coordinator_source_tasks_wait_and_then_run_without_fencing(
    without_coordinator: KafkaCluster, tmp_path: Path
) -> None:
    """A target of one broker with Kafka's default of transaction.state.log.replication.factor."""
    async with connected(without_coordinator) as cluster:
        fence = fence_of(cluster, tmp_path, "A-mm2", Releases(), times=IMPATIENT)
        with pytest.raises(BrokerError, match="COORDINATOR_NOT_AVAILABLE"):
            await fence.acquire(TASK, [])

        async def given_up() -> bool:
            try:
                return (await fence.acquire(TASK, [])).producer is None
            except BrokerError:
                return False

        await until(given_up, 30, "it runs without fencing")
        assert fence.warning is not None
        assert "at least as many brokers as transaction.state.log.replication.factor" in fence.warning
