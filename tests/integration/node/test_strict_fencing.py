"""exactly.once.source.support = preparing or enabled: without fencing nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.source_task_reports import SourceTaskReport
from mm2.core.coordination.task_fencing import COMMIT_KEY, FENCING_KEY
from mm2.core.lanes.lease import TaskProducer
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.transaction_coordinator import Fenced, TransactionCoordinator
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch
from mm2.kafka.retrying import retried
from mm2.node.common.fencing_errors import FencingFailedError
from mm2.node.leader.config_writer import ConfigWriter, TransactionsRequiredError
from mm2.node.leader.leader_term import TaskFencer
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.source.source_task_fence import FenceTimes, SourceTaskFence
from mm2.node.store.config_store import ConfigStore
from tests.integration.guarded.permissions import PASSWORD, USER, add, allowed, binding
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.history import read_topic
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.records import DELIVERED, Outgoing, Writer, write
from tests.lab.waiting import until
from tests.unit.config import files

LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
LOGIN = {
    "security_protocol": SecurityProtocol.SASL_PLAINTEXT,
    "sasl": PasswordLogin(mechanism=SaslMechanism.PLAIN, username=USER, password=PASSWORD),
}
ENABLED = "B.exactly.once.source.support = enabled\nA.consumer.isolation.level = read_committed\n"
CONFIGS = "mm2-configs.A.internal"


async def never_released(_source_task: int) -> None:
    return None


def fence_of(cluster: Cluster, directory: Path, extra: str = "", **options: Any) -> SourceTaskFence:
    return SourceTaskFence(files.flow(directory, ENABLED + extra), cluster, never_released, **options)


async def test_without_permission_no_source_task_starts(start_cluster: StartCluster, tmp_path: Path) -> None:
    kafka = start_cluster(listeners=(LISTENER,), users={USER: PASSWORD}, properties=AUTHORIZER)
    kafka.create_topic("A.orders")
    kafka.create_topic(CONFIGS)
    add(kafka, allowed(AclOperation.ALL, "A.orders"))
    add(kafka, allowed(AclOperation.ALL, CONFIGS))
    async with connected(kafka, LISTENER.label, **LOGIN) as cluster:
        fence, remote = fence_of(cluster, tmp_path), [TopicPartition("A.orders", 0)]
        with pytest.raises(FencingFailedError) as denied:
            await fence.acquire(0, remote)
        assert str(denied.value).endswith(
            "; nothing is copied without it, since"
            " B.exactly.once.source.support is enabled; grant the node's principal WRITE on transactional"
            " IDs with prefix A-mm2-MirrorSourceConnector-"
        )
        assert fence.warning is None

        write(kafka.bootstrap, CONFIGS, [Outgoing(key=FENCING_KEY, value=b'{"task-count":1}')])
        fencer = await fencer_of(cluster, files.flow(tmp_path, ENABLED).storage.configs.name, tmp_path)
        with pytest.raises(ExceptionGroup) as lost:
            await fencer.fence({}, ())
        assert "cannot fence the lost owner of source task 0: " in str(lost.value.exceptions[0])
        assert "grant the node's principal WRITE" in str(lost.value.exceptions[0])

        support = "B.exactly.once.source.support = preparing"
        writer = ConfigWriter(cluster, CONFIGS, "connect-cluster-A-mm2", required_by=support)
        with pytest.raises(TransactionsRequiredError, match=f"which {support} requires: .*grant the node's principal"):
            await writer.begin()
        assert [key for key, _ in configs_of(kafka)] == [FENCING_KEY]

        add(kafka, binding(AclOperation.WRITE, "A-mm2-MirrorSourceConnector-0", kind=ResourceType.TRANSACTIONAL_ID))

        async def acquired() -> TaskProducer | None:
            try:
                return (await fence.acquire(0, remote)).producer
            except FencingFailedError:
                return None

        await until(acquired, 60, "the permission is noticed")


async def test_without_a_coordinator_the_leader_writes_nothing(
    without_coordinator: KafkaCluster, unique: Callable[[str], str]
) -> None:
    kafka = without_coordinator
    topic = kafka.create_topic(unique("configs"))
    async with connected(kafka) as cluster:
        writer = ConfigWriter(
            cluster, topic, "connect-cluster-A-mm2", required_by="B.x = enabled", no_coordinator_ms=2_000
        )
        with pytest.raises(TransactionsRequiredError, match=r"transaction\.state\.log\.replication\.factor"):
            await writer.begin()
        with pytest.raises(ClusterError):
            await writer.put([(b"a", b"plain")])
    assert configs_of(kafka, topic) == []


async def test_without_a_coordinator_source_tasks_wait(without_coordinator: KafkaCluster, tmp_path: Path) -> None:
    async with connected(without_coordinator) as cluster:
        fence = fence_of(cluster, tmp_path, times=FenceTimes(no_coordinator_s=2.0, attempt_ms=500))

        async def advised() -> bool:
            with pytest.raises((BrokerError, FencingFailedError)) as raised:
                await fence.acquire(0, [])
            return "at least as many brokers as transaction.state.log.replication.factor" in str(raised.value)

        await until(advised, 30, "the error says what to do")


async def test_transaction_timeout_is_that_of_the_file(start_cluster: StartCluster, tmp_path: Path) -> None:
    kafka = start_cluster(properties={"transaction.max.timeout.ms": "70000"})
    async with connected(kafka) as cluster:
        assert (await fence_of(cluster, tmp_path).acquire(0, [])).producer is not None
        fence = fence_of(cluster, tmp_path, "B.producer.transaction.timeout.ms = 80000\n")
        with pytest.raises(FencingFailedError, match=r"at least 80000, or lower B\.producer\.transaction\.timeout\.ms"):
            await fence.acquire(0, [])


async def test_what_the_predecessor_committed_is_visible(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Fence, then read: its open transaction is aborted before the offsets are read, and the last commit counts."""
    topic = cluster_b.create_topic(unique("mm2-offsets"), 25, config={"cleanup.policy": "compact"})
    group, partition = unique("group"), TopicPartition("orders", 0)
    key = encode_key(SourceKey(cluster="A", topic=partition.topic, partition=partition.partition))
    lost = Writer(cluster_b.bootstrap, settings={"transactional.id": f"{group}-MirrorSourceConnector-0"})
    lost.transactions.init_transactions(DELIVERED)
    for offset in (99, 199):
        lost.transactions.begin_transaction()
        lost.send(topic, Outgoing(key=key, value=encode_offset(offset), partition=3))
        lost.flush()
        if offset == 99:
            lost.transactions.commit_transaction(DELIVERED)
    async with connected(cluster_b) as cluster:
        await fence_of(cluster, tmp_path, f"B.group.id = {group}\n").acquire(0, [])
        offsets = StoredSourceOffsets(cluster, topic, Flow("A", "B"), source_alias="A", partitions=25)
        await offsets.refresh()
        assert offsets.position(partition) == 100
    (stored,) = [one for records in read_topic(cluster_b.bootstrap, topic).values() for one in records]
    assert stored.content[1] == encode_offset(99), "the open transaction was aborted"


# -- the leader


async def fencer_of(cluster: Cluster, topic: str, directory: Path, group: str = "A-mm2") -> TaskFencer:
    settings = files.flow(directory, f"{ENABLED}B.config.storage.topic = {topic}\nB.group.id = {group}\n")
    store = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    await store.read_to_end()
    return TaskFencer(settings, cluster, store)


def configs_of(kafka: KafkaCluster, topic: str = CONFIGS) -> list[tuple[bytes | None, bytes | None]]:
    return [one.content[:2] for records in read_topic(kafka.bootstrap, topic).values() for one in records]


def listed(source_task: int) -> SourceTaskRecord:
    partitions = frozenset({TopicPartition("orders", source_task)})
    return SourceTaskRecord(source_task=source_task, epoch=1, version=1, partitions=partitions)


def report(source_task: int, member: str) -> SourceTaskReport:
    return SourceTaskReport(source_task=source_task, member=member, node="n1", epoch=1, version=1)


async def is_fenced(coordinator: TransactionCoordinator, producer: ProducerIdAndEpoch, remote: TopicPartition) -> bool:
    try:
        await coordinator.add(producer, [remote])
    except Fenced:
        return True
    await coordinator.abort(producer)
    return False


@pytest.mark.parametrize("java_led", [False, True])
async def test_new_leader_fences_ids_without_a_live_owner(
    cluster_b: KafkaCluster, unique: Callable[[str], str], tmp_path: Path, *, java_led: bool
) -> None:
    """IDs 0 to 3 are in use. Owner of 0 runs; 1 was assigned to a node that has not started it; 2 and 3 are lost."""
    topic, group = cluster_b.create_topic(unique("configs")), unique("group")
    remote = TopicPartition(cluster_b.create_topic(unique("A.orders")), 0)
    records = [Outgoing(key=FENCING_KEY, value=b'{"task-count":4}')]
    if java_led:
        records.append(Outgoing(key=COMMIT_KEY, value=b'{"tasks":4}'))
    write(cluster_b.bootstrap, topic, records)
    async with connected(cluster_b) as cluster:
        ids = [
            TransactionCoordinator(cluster, f"{group}-MirrorSourceConnector-{n}", timeout_ms=60_000, purpose="test")
            for n in range(4)
        ]
        producers = [await retried(one.init, cluster.settings, timeout_ms=30_000) for one in ids]
        fencer = await fencer_of(cluster, topic, tmp_path, group)
        await fencer.fence({0: "m1", 1: "m2"}, [report(0, "m1"), report(1, "m0"), report(2, "m2")])
        fenced = [await is_fenced(*pair, remote) for pair in zip(ids, producers, strict=True)]
        assert fenced == [False, java_led, True, True]

        recorded = dict(fencer.due([listed(0), listed(1)]))
        assert recorded[FENCING_KEY] == b'{"task-count":2}'
        assert recorded.get(COMMIT_KEY) == (b'{"tasks":0}' if java_led else None)
        assert dict(fencer.due(map(listed, range(5))))[FENCING_KEY] == b'{"task-count":5}'
        assert dict(fencer.due([listed(0)]))[FENCING_KEY] == b'{"task-count":5}', "it may still be in use"
