"""Faults of clusters, of the network between them and a node, and of ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random

from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.faults.fault_stage import WIRED, Stage, coordinator_group, transactional_id
from tests.faults.fault_times import AROUND_SESSION, AROUND_ZOOKEEPER_SESSION, DOWN, pass_time
from tests.faults.node_faults import named
from tests.faults.node_group import PARTITIONS
from tests.lab.broker import Broker
from tests.lab.cable import Cable
from tests.lab.cluster import ADMIN_TIMEOUT, KafkaCluster
from tests.lab.features import finalize, finalized
from tests.lab.freezing import frozen
from tests.lab.jars import KAFKA_4
from tests.lab.quotas import set_quota
from tests.lab.records import Outgoing, write
from tests.lab.waiting import wait_until

IN_SYNC = 90.0  # seconds until a broker that has restarted has caught up
BROKER_SESSION = 4.0  # seconds until a killed broker has left the in-sync replicas: broker.session.timeout.ms, and one
ELECTED = 60.0  # seconds
SLOW = 2_000  # bytes per second of each client, a tenth of the compressed load


def freeze_zookeeper(stage: Stage, _topic: str, rng: Random) -> str:
    assert stage.zookeeper is not None
    seconds = rng.uniform(*AROUND_ZOOKEEPER_SESSION)
    with frozen(stage.zookeeper.process):
        pass_time(seconds)
    return f"ZooKeeper suspended for {seconds:.1f} s"


def kill_coordinator(stage: Stage, _topic: str, rng: Random) -> str:
    return _kill_broker(stage.group.target.coordinator(coordinator_group()), rng)


def kill_transaction_coordinator(stage: Stage, _topic: str, rng: Random) -> str:
    source_task = rng.randrange(stage.topology.tasks_max)
    return _kill_broker(stage.group.target.transaction_coordinator(transactional_id(source_task)), rng)


def kill_source_broker(stage: Stage, _topic: str, rng: Random) -> str:
    return _kill_broker(rng.choice(stage.group.source.brokers), rng)


def kill_target_broker(stage: Stage, _topic: str, rng: Random) -> str:
    return _kill_broker(rng.choice(stage.group.target.brokers), rng)


def suspend_target_broker(stage: Stage, _topic: str, rng: Random) -> str:
    broker, seconds = rng.choice(stage.group.target.brokers), rng.uniform(*AROUND_SESSION)
    with frozen(broker.process):
        pass_time(seconds)
    return f"{broker.name} suspended for {seconds:.1f} s"


def restart_brokers(stage: Stage, _topic: str, _rng: Random) -> str:
    for cluster in stage.clusters:
        for broker in cluster.brokers:
            broker.restart()
            cluster.wait_in_sync(IN_SYNC)
    return "all brokers restarted one after the other"


def upgrade_brokers(stage: Stage, _topic: str, _rng: Random) -> str:
    """Rolling upgrade of both clusters, then of their features, with which transactions become those of version 2."""
    for cluster in stage.clusters:
        for broker in cluster.brokers:
            broker.upgrade(KAFKA_4)
            cluster.wait_in_sync(IN_SYNC)
    before = finalized(stage.group.target)
    for cluster in stage.clusters:
        finalize(cluster, KAFKA_4)
    after = finalized(stage.group.target)
    names = ("metadata.version", "transaction.version")
    levels = ", ".join(f"{name} {before.get(name)} to {after.get(name)}" for name in names)
    assert (before.get("transaction.version", "0"), after.get("transaction.version")) == ("0", "2"), levels
    return f"all brokers upgraded to {KAFKA_4}, {levels}"


def cut_off_source(stage: Stage, _topic: str, rng: Random) -> str:
    return _cut(stage, stage.source_cables, rng)


def cut_off_target(stage: Stage, _topic: str, rng: Random) -> str:
    return _cut(stage, stage.target_cables, rng)


def cut_off_broker(stage: Stage, _topic: str, rng: Random) -> str:
    return _cut(stage, [rng.choice((*stage.source_cables, *stage.target_cables))], rng)


def throttle_source(stage: Stage, _topic: str, rng: Random) -> str:
    return _throttle(stage.group.source, "consumer_byte_rate", rng)


def throttle_target(stage: Stage, _topic: str, rng: Random) -> str:
    return _throttle(stage.group.target, "producer_byte_rate", rng)


def skew_timestamps(stage: Stage, topic: str, rng: Random) -> str:
    """Records of writers whose clocks are wrong, between those of the load."""
    now_ms = time.time_ns() // 1_000_000
    offsets = (-24 * 3600, -3600, 3300)  # seconds; brokers reject timestamps more than an hour ahead
    records = [
        Outgoing(key=b"skewed", value=b"skewed %d" % number, timestamp_ms=now_ms + 1000 * rng.choice(offsets))
        for number in range(1_000)
    ]
    write(stage.group.source.bootstrap, topic, records)
    return "1,000 records with timestamps of a day or an hour ago, and of an hour ahead"


def delete_records(stage: Stage, topic: str, rng: Random) -> str:
    """What retention does while no node runs: the records that are written meanwhile are deleted."""
    nodes, seconds, source = stage.group.by_name.values(), rng.uniform(2.0, 6.0), stage.group.source
    for node in nodes:
        node.kill()
    pass_time(seconds)
    ends = [TopicPartition(topic, number, OFFSET_END) for number in range(source.partition_count(topic))]
    for future in source.admin.delete_records(ends).values():
        future.result(ADMIN_TIMEOUT)
    for node in nodes:
        node.start()
    return f"records of {seconds:.1f} s deleted while no node ran"


def place_on_two_brokers(stage: Stage, topic: str) -> None:
    """Create the remote topic before the flow does, so that one of its two replicas can miss records."""
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    wanted = NewTopic(f"A.{topic}", PARTITIONS, replica_assignment=[[1, 2]] * PARTITIONS, config=config)
    stage.group.target.admin.create_topics([wanted])[wanted.topic].result(ADMIN_TIMEOUT)


def elect_uncleanly(stage: Stage, topic: str, rng: Random) -> str:
    """A replica of the remote topic that has missed records becomes leader, and what it misses is lost."""
    target, seconds = stage.group.target, rng.uniform(2.0, 6.0)
    target.broker(2).kill()
    pass_time(seconds + BROKER_SESSION)
    target.broker(1).kill()
    target.broker(2).restart()
    wait_until(lambda: target.leader(f"A.{topic}") is target.broker(2), ELECTED, "the other replica is elected")
    pass_time(seconds)
    target.broker(1).restart()
    return f"replicas of the remote topic that missed {seconds:.1f} s of records elected"


def _kill_broker(broker: Broker, rng: Random) -> str:
    seconds = rng.uniform(*DOWN)
    broker.kill()
    pass_time(seconds)
    broker.restart()
    return f"{broker.name} killed, started again after {seconds:.1f} s"


def _cut(stage: Stage, cables: Sequence[Cable], rng: Random) -> str:
    seconds = rng.uniform(*AROUND_SESSION)
    name, ends = named(stage, stage.group.by_name[WIRED]), ", ".join(cable.name for cable in cables)
    done = f"{name}: {ends} cut for {seconds:.1f} s"
    for cable in cables:
        cable.cut()
    try:
        pass_time(seconds)
    finally:
        for cable in cables:
            cable.heal()
    return done


def _throttle(cluster: KafkaCluster, quota: str, rng: Random) -> str:
    seconds = rng.uniform(*AROUND_SESSION)
    with set_quota(cluster, quota, SLOW):
        pass_time(seconds)
    return f"{cluster.name}: {quota} of {SLOW} for {seconds:.1f} s"
