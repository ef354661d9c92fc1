"""The faults of the matrix. Each strikes a running group, lasts as long as its seed decides, and is healed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psutil

from tests.faults.fault_stage import WIRED, Stage, Topology, coordinator_group
from tests.lab.broker import Broker
from tests.lab.cable import Cable
from tests.lab.freezing import frozen, suspended
from tests.lab.lanes import lanes
from tests.lab.node import Node
from tests.lab.waiting import wait_until

NODE = ("node", "engine", "jvm", "worker")
LATE = 30.0  # seconds that the test process itself may be late on busy cores
STARTED = 60.0  # seconds until the process to strike runs, if it is just being replaced

# Seconds, least and most. Session: 10 s by default; lease: at most 9 s; ZooKeeper's session: 20 s.
DOWN = (0.0, 15.0)  # from a restart within the session to one long after the takeover
BEYOND_SESSION = (11.0, 20.0)
AROUND_SESSION = (3.0, 20.0)
AROUND_ZOOKEEPER_SESSION = (5.0, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``strike`` injects the fault and heals it; it returns what it did."""

    name: str
    strike: Callable[[Stage, Random], str]
    possible: Callable[[Topology], bool] = lambda _: True


def pass_time(seconds: float) -> None:
    """Wait for this many seconds."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + LATE, "the time has passed")


def kill_node(stage: Stage, rng: Random) -> str:
    node, seconds = _node(stage, rng), rng.uniform(*DOWN)
    done = f"{_named(stage, node)} killed, started again after {seconds:.1f} s"
    node.kill()
    pass_time(seconds)
    node.start()
    return done


def suspend_node(stage: Stage, rng: Random) -> str:
    node = _node(stage, rng)
    done = _named(stage, node)
    return _suspend(done, [one for role in NODE for one in node.members(role)], rng.uniform(*BEYOND_SESSION))


def kill_engine(stage: Stage, rng: Random) -> str:
    node = _node(stage, rng)
    return _kill(f"JVM of {_named(stage, node)}", _engine(node))


def suspend_engine(stage: Stage, rng: Random) -> str:
    node = _node(stage, rng)
    return _suspend(f"JVM of {_named(stage, node)}", [_engine(node)], rng.uniform(*AROUND_SESSION))


def kill_lane(stage: Stage, rng: Random) -> str:
    node = _node(stage, rng)
    return _kill(f"a lane of {_named(stage, node)}", _lane(node, rng))


def suspend_lane(stage: Stage, rng: Random) -> str:
    node = _node(stage, rng)
    return _suspend(f"a lane of {_named(stage, node)}", [_lane(node, rng)], rng.uniform(*AROUND_SESSION))


def freeze_zookeeper(stage: Stage, rng: Random) -> str:
    assert stage.zookeeper is not None
    seconds = rng.uniform(*AROUND_ZOOKEEPER_SESSION)
    with frozen(stage.zookeeper.process):
        pass_time(seconds)
    return f"ZooKeeper suspended for {seconds:.1f} s"


def kill_coordinator(stage: Stage, rng: Random) -> str:
    return _kill_broker(stage.group.target.coordinator(coordinator_group()), rng)


def kill_broker(stage: Stage, rng: Random) -> str:
    return _kill_broker(rng.choice(rng.choice(stage.clusters).brokers), rng)


def cut_off_source(stage: Stage, rng: Random) -> str:
    return _cut(stage, stage.source_cables, rng)


def cut_off_target(stage: Stage, rng: Random) -> str:
    return _cut(stage, stage.target_cables, rng)


def cut_off_broker(stage: Stage, rng: Random) -> str:
    return _cut(stage, [rng.choice((*stage.source_cables, *stage.target_cables))], rng)


def _three_brokers(topology: Topology) -> bool:
    return topology.brokers == 3


FAULTS = (
    Fault(name="node killed", strike=kill_node),
    Fault(name="node suspended", strike=suspend_node),
    Fault(name="engine JVM killed", strike=kill_engine),
    Fault(name="engine JVM suspended", strike=suspend_engine),
    Fault(name="lane killed", strike=kill_lane),
    Fault(name="lane suspended", strike=suspend_lane),
    Fault(name="ZooKeeper suspended", strike=freeze_zookeeper, possible=lambda one: one.election == "zookeeper"),
    Fault(name="coordinator killed", strike=kill_coordinator, possible=_three_brokers),
    Fault(name="broker killed", strike=kill_broker, possible=_three_brokers),
    Fault(name="cut off source", strike=cut_off_source),
    Fault(name="cut off target", strike=cut_off_target),
    Fault(name="cut off one broker", strike=cut_off_broker, possible=_three_brokers),
)


def _node(stage: Stage, rng: Random) -> Node:
    return rng.choice([*stage.group.by_name.values()])


def _named(stage: Stage, node: Node) -> str:
    return f"{'leader' if stage.leads(node.name) else 'follower'} {node.name}"


def _engine(node: Node) -> psutil.Process:
    return wait_until(lambda: node.members("jvm"), STARTED, f"the engine of {node.name} has a JVM")[0]


def _lane(node: Node, rng: Random) -> psutil.Process:
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
    done = f"{_named(stage, stage.group[WIRED])}: {', '.join(cable.name for cable in cables)} cut for {seconds:.1f} s"
    for cable in cables:
        cable.cut()
    try:
        pass_time(seconds)
    finally:
        for cable in cables:
            cable.heal()
    return done
