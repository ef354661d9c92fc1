"""Faults of nodes and of their processes and clocks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from random import Random

import psutil

from tests.faults.fault_stage import Stage
from tests.faults.fault_times import AROUND_SESSION, BEYOND_SESSION, DOWN, pass_time
from tests.lab.freezing import suspended
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.lanes import lanes
from tests.lab.node import Node
from tests.lab.waiting import wait_until

STARTED = 60.0  # seconds until the process to strike runs, if it is just being replaced
JUMPED = 10.0  # seconds until a node shows that its clock has jumped
NEAR = 60.0  # seconds: far from an hour, and more than a response takes


def stop_node(stage: Stage, _topic: str, rng: Random) -> str:
    node, seconds = any_node(stage, rng), rng.uniform(*DOWN)
    done = f"{named(stage, node)} stopped, started again after {seconds:.1f} s"
    node.stop()
    pass_time(seconds)
    node.start()
    return done


def kill_node(stage: Stage, _topic: str, rng: Random) -> str:
    node, seconds = any_node(stage, rng), rng.uniform(*DOWN)
    done = f"{named(stage, node)} killed, started again after {seconds:.1f} s"
    node.kill()
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


def suspend_node(stage: Stage, _topic: str, rng: Random) -> str:
    node = any_node(stage, rng)
    done = named(stage, node)
    return _suspend(done, node.family(), rng.uniform(*BEYOND_SESSION))


def kill_engine(stage: Stage, _topic: str, rng: Random) -> str:
    node = any_node(stage, rng)
    return _kill(f"JVM of {named(stage, node)}", _engine(node))


def suspend_engine(stage: Stage, _topic: str, rng: Random) -> str:
    node = any_node(stage, rng)
    return _suspend(f"JVM of {named(stage, node)}", [_engine(node)], rng.uniform(*AROUND_SESSION))


def kill_lane(stage: Stage, _topic: str, rng: Random) -> str:
    node = any_node(stage, rng)
    return _kill(f"a lane of {named(stage, node)}", _lane(node, rng))


def suspend_lane(stage: Stage, _topic: str, rng: Random) -> str:
    node = any_node(stage, rng)
    return _suspend(f"a lane of {named(stage, node)}", [_lane(node, rng)], rng.uniform(*AROUND_SESSION))


def skew_clock(stage: Stage, _topic: str, rng: Random) -> str:
    """One node's clock jumps ahead or behind by an hour, then the other way, then is right again."""
    name, hour = rng.choice(sorted(stage.clocks)), rng.choice((-3600, 3600))
    node, clock = stage.group.by_name[name], stage.clocks[name]
    assert isinstance(node, Node)
    assert all(clock.skews(process) for process in lanes(node)), "the lanes have the node's clock"
    done = f"clock of {named(stage, node)} set by {hour} s, {-hour} s and 0 s"
    for offset in (hour, -hour, 0):
        clock.set(offset)
        _wait_jumped(node, offset)
        pass_time(rng.uniform(*AROUND_SESSION))
    return done


def _wait_jumped(node: Node, offset: int) -> None:
    wait_until(lambda: abs(_offset(node) - offset) < NEAR, JUMPED, f"the clock of {node.name} has jumped")


def _offset(node: Node) -> float:
    """Return by how many seconds the node's clock is ahead, from the Date of a response."""
    answer = node.get("/health/live")
    return float("nan") if answer is None else parsedate_to_datetime(answer.headers["date"]).timestamp() - time.time()


def any_node(stage: Stage, rng: Random) -> Node | JavaMirrorMaker:
    nodes: list[Node | JavaMirrorMaker] = [*stage.group.by_name.values()]
    return rng.choice(nodes)


def named(stage: Stage, node: Node | JavaMirrorMaker) -> str:
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
