"""The faults of the table. Each strikes a running group, lasts as long as its seed decides, and is healed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psutil
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.faults.fault_stage import WIRED, Stage, Topology, coordinator_group, transactional_id
from tests.faults.mode import slug
from tests.faults.node_group import PARTITIONS
from tests.lab.broker import Broker
from tests.lab.cable import Cable
from tests.lab.cluster import ADMIN_TIMEOUT, KafkaCluster
from tests.lab.features import finalize, finalized
from tests.lab.freezing import frozen, suspended
from tests.lab.jars import KAFKA_3, KAFKA_4
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.lanes import lanes
from tests.lab.node import Node
from tests.lab.quotas import set_quota
from tests.lab.records import Outgoing, write
from tests.lab.waiting import wait_until

LATE = 30.0  # seconds that the test process itself may be late on busy cores
STARTED = 60.0  # seconds until the process to strike runs, if it is just being replaced
IN_SYNC = 90.0  # seconds until a broker that has restarted has caught up

# Seconds, least and most. Session: 10 s by default; lease: at most 9 s; ZooKeeper's session: 20 s.
DOWN = (0.0, 15.0)  # from a restart within the session to one long after the takeover
BEYOND_SESSION = (11.0, 20.0)
AROUND_SESSION = (3.0, 20.0)
AROUND_ZOOKEEPER_SESSION = (5.0, 30.0)
BROKER_SESSION = 4.0  # seconds until a killed broker has left the in-sync replicas: broker.session.timeout.ms, and one
ELECTED = 60.0  # seconds
SLOW = 20_000  # bytes per second of each client, a fifth of the load


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``strike`` injects the fault and heals it, while records are written to a topic; it returns what it did.

    ``possible``: in which topologies. ``prepare`` is called with the stage and the name of the topic before that is
    created. ``keeps_data``: whether the clusters keep what they have acknowledged; if not, a loss must be on record.
    ``once``: whether it can strike a stage only once.
    """

    name: str
    strike: Callable[[Stage, str, Random], str]
    possible: Callable[[Topology], bool] = lambda _: True
    prepare: Callable[[Stage, str], None] = lambda _stage, _topic: None
    keeps_data: bool = True
    once: bool = False

    def __str__(self) -> str:
        return slug(self.name)


def pass_time(seconds: float) -> None:
    """Wait for this many seconds."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + LATE, "the time has passed")


def kill_node(stage: Stage, _topic: str, rng: Random) -> str:
    node, seconds = _node(stage, rng), rng.uniform(*DOWN)
    done = f"{_named(stage, node)} killed, started again after {seconds:.1f} s"
    node.kill()
    pass_time(seconds)
    node.start()
    return done


def suspend_node(stage: Stage, _topic: str, rng: Random) -> str:
    node = _node(stage, rng)
    done = _named(stage, node)
    return _suspend(done, node.family(), rng.uniform(*BEYOND_SESSION))


def kill_engine(stage: Stage, _topic: str, rng: Random) -> str:
    node = _node(stage, rng)
    return _kill(f"JVM of {_named(stage, node)}", _engine(node))


def suspend_engine(stage: Stage, _topic: str, rng: Random) -> str:
    node = _node(stage, rng)
    return _suspend(f"JVM of {_named(stage, node)}", [_engine(node)], rng.uniform(*AROUND_SESSION))


def kill_lane(stage: Stage, _topic: str, rng: Random) -> str:
    node = _node(stage, rng)
    return _kill(f"a lane of {_named(stage, node)}", _lane(node, rng))


def suspend_lane(stage: Stage, _topic: str, rng: Random) -> str:
    node = _node(stage, rng)
    return _suspend(f"a lane of {_named(stage, node)}", [_lane(node, rng)], rng.uniform(*AROUND_SESSION))


def stop_node(stage: Stage, _topic: str, rng: Random) -> str:
    node, seconds = _node(stage, rng), rng.uniform(*DOWN)
    done = f"{_named(stage, node)} stopped, started again after {seconds:.1f} s"
    node.stop()
    pass_time(seconds)
    node.start()
    return done


def kill_all_nodes(stage: Stage, _topic: str, rng: Random) -> str:
    seconds, nodes = rng.uniform(*DOWN), stage.group.by_name.values()
    for node in nodes:
        node.kill()
    pass_time(seconds)
    for node in nodes:
        node.start()
    return f"all nodes killed, started again after {seconds:.1f} s"


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


def skew_clock(stage: Stage, _topic: str, rng: Random) -> str:
    """One node's clock jumps ahead or behind by an hour, then the other way, then is right again."""
    name, hour = rng.choice(sorted(stage.clocks)), rng.choice((-3600, 3600))
    jumps = (hour, -hour, 0)
    done = f"clock of {_named(stage, stage.group.by_name[name])} set by {hour} s, {-hour} s and 0 s"
    for offset in jumps:
        stage.clocks[name].set(offset)
        pass_time(rng.uniform(*AROUND_SESSION))
    return done


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


def _ours(topology: Topology) -> bool:
    return not topology.mode.java


def _three_brokers(topology: Topology) -> bool:
    return topology.brokers == 3


FAULTS = (
    Fault(name="node stopped", strike=stop_node),
    Fault(name="node killed", strike=kill_node),
    Fault(name="all nodes killed", strike=kill_all_nodes),
    Fault(name="node suspended", strike=suspend_node),
    Fault(name="engine JVM killed", strike=kill_engine, possible=_ours),
    Fault(name="engine JVM suspended", strike=suspend_engine, possible=_ours),
    Fault(name="lane killed", strike=kill_lane, possible=_ours),
    Fault(name="lane suspended", strike=suspend_lane, possible=_ours),
    Fault(name="ZooKeeper suspended", strike=freeze_zookeeper, possible=lambda one: one.election == "zookeeper"),
    Fault(name="coordinator killed", strike=kill_coordinator, possible=_three_brokers),
    Fault(
        name="transaction coordinator killed",
        strike=kill_transaction_coordinator,
        possible=lambda one: one.mode.exactly_once and _three_brokers(one),
    ),
    Fault(name="source broker killed", strike=kill_source_broker, possible=_three_brokers),
    Fault(name="target broker killed", strike=kill_target_broker, possible=_three_brokers),
    Fault(name="target broker suspended", strike=suspend_target_broker, possible=_three_brokers),
    Fault(name="brokers restarted", strike=restart_brokers, possible=_three_brokers),
    Fault(name="cut off source", strike=cut_off_source),
    Fault(name="cut off target", strike=cut_off_target),
    Fault(name="cut off one broker", strike=cut_off_broker, possible=_three_brokers),
    Fault(name="source throttled", strike=throttle_source),
    Fault(name="target throttled", strike=throttle_target),
    Fault(name="timestamps skewed", strike=skew_timestamps),
    Fault(name="clock skewed", strike=skew_clock, possible=lambda one: one.clocks),
    Fault(name="brokers upgraded", strike=upgrade_brokers, possible=lambda one: one.version == KAFKA_3, once=True),
    Fault(name="records deleted", strike=delete_records, keeps_data=False),
    Fault(
        name="unclean target election",
        strike=elect_uncleanly,
        possible=_three_brokers,
        prepare=place_on_two_brokers,
        keeps_data=False,
    ),
)


def _node(stage: Stage, rng: Random) -> Node | JavaMirrorMaker:
    nodes: list[Node | JavaMirrorMaker] = [*stage.group.by_name.values()]
    return rng.choice(nodes)


def _named(stage: Stage, node: Node | JavaMirrorMaker) -> str:
    if isinstance(node, JavaMirrorMaker):
        return node.name
    return f"{'leader' if stage.leads(node.name) else 'follower'} {node.name}"


def _engine(node: Node | JavaMirrorMaker) -> psutil.Process:
    assert isinstance(node, Node)
    return wait_until(lambda: node.members("jvm"), STARTED, f"the engine of {node.name} has a JVM")[0]


def _lane(node: Node | JavaMirrorMaker, rng: Random) -> psutil.Process:
    assert isinstance(node, Node)
    return rng.choice(wait_until(lambda: lanes(node), STARTED, f"{node.name} has a lane"))


def _kill(name: str, process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):  # it is being replaced
        process.kill()
    return f"{name} killed"


def _suspend(name: str, processes: Sequence[psutil.Process], seconds: float) -> str:
    with suspended(processes):
        pass_time(seconds)
    return f"{name} suspended for {seconds:.1f} s"


def _kill_broker(broker: Broker, rng: Random) -> str:
    seconds = rng.uniform(*DOWN)
    broker.kill()
    pass_time(seconds)
    broker.restart()
    return f"{broker.name} killed, started again after {seconds:.1f} s"


def _cut(stage: Stage, cables: Sequence[Cable], rng: Random) -> str:
    seconds = rng.uniform(*AROUND_SESSION)
    done = f"{_named(stage, stage.group.by_name[WIRED])}: {', '.join(cable.name for cable in cables)} cut for {seconds:.1f} s"
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
