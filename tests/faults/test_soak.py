"""Soak test: two nodes under load for hours, with topics and groups that come and go and a fault in each round.

Every topic is copied as its mode guarantees, and the node that no fault strikes keeps its memory, files and threads.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from tests.faults.mode import OURS, Mode
from tests.faults.node_faults import STARTED
from tests.faults.node_group import COPIED, FLOW, NodeGroup
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import commit, committed, delete_groups
from tests.lab.lanes import lanes
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.usage import Usage, growth, usage
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

HOURS = float(os.environ.get("SOAK_HOURS", "0.5"))
ROUNDS_S = (30.0, 90.0)  # seconds of load on one topic before it is judged and deleted, so that histories fit in memory
FEWEST_ROUNDS = 4
SAMPLED = 3.0  # seconds between two samples of memory, files and threads
PARTITIONS, MORE_PARTITIONS = 4, 6  # of each round's topic, before and after it grows
PER_SECOND = 500
STEADY, STEADY_PER_SECOND = "t-steady", 20  # one topic for the whole time: a day of it fits in memory
GROUPS = 5  # that commit in each round, and are deleted in the next
SYNCED = 60.0  # seconds until their offsets are on the target
FORGOTTEN = 90.0  # seconds until a deleted topic is not replicated any more
OBSERVED, VICTIM = "one", "two"
PROPERTIES = {
    "refresh.groups.interval.seconds": "2",
    "emit.checkpoints.interval.seconds": "2",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "2",
}


def kill_node(nodes: NodeGroup) -> None:
    nodes[VICTIM].kill()
    nodes[VICTIM].start()


def restart_node(nodes: NodeGroup) -> None:
    assert nodes[VICTIM].stop() == 0
    nodes[VICTIM].start()


def kill_lane(nodes: NodeGroup) -> None:
    kill(lambda: lanes(nodes[VICTIM]), "a lane")


def kill_engine(nodes: NodeGroup) -> None:
    kill(lambda: nodes[VICTIM].members("jvm"), "a JVM")


def restart_source(nodes: NodeGroup) -> None:
    nodes.source.broker(1).restart()


def restart_target(nodes: NodeGroup) -> None:
    nodes.target.broker(1).restart()


def kill(processes: Callable[[], list[psutil.Process]], what: str) -> None:
    found = wait_until(processes, STARTED, f"{VICTIM} has {what}")
    with suppress(psutil.NoSuchProcess):  # it is being replaced
        found[0].kill()


STRIKES = (kill_node, restart_node, kill_lane, kill_engine, restart_source, restart_target)


class Soak:
    """What the rounds share: the nodes, and samples of node `OBSERVED`."""

    def __init__(self, nodes: NodeGroup, mode: Mode, rng: random.Random) -> None:
        self.samples: list[dict[str, Usage]] = []
        self._nodes = nodes
        self._mode = mode
        self._rng = rng
        self._sampled_at = float("-inf")

    def play(self, number: int, seconds: float) -> int:
        """One round of ``seconds``: a topic that grows, groups and a fault. Returns the number of its records."""
        topic, source = f"t-soak-{number}", self._nodes.source
        strike = self._rng.choice(STRIKES)
        source.create_topic(topic, PARTITIONS)
        with Load(source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
            load.wait_for_more(1)
            self._pass(seconds / 3)
            load.stop()
        source.grow_topic(topic, MORE_PARTITIONS)
        with Load(source, topic, partitions=MORE_PARTITIONS, per_second=PER_SECOND, first=10**7) as load:
            load.wait_for_more(1)
            strike(self._nodes)
            self._pass(2 * seconds / 3)
            load.stop()
        self._change_groups(number)
        records = self.judge(topic)
        self._nodes.wait_shared()
        print(f"round {number}: {strike.__name__}, {records} records, {self.samples[-1]}")
        self._delete(topic)
        return records

    def judge(self, topic: str) -> int:
        """Check a topic's copy, and return its number of records. Raises GaveUp."""
        source, target = self._nodes.source.bootstrap, self._nodes.target.bootstrap
        repeats = self._mode.repeats_allowed
        remote = target, f"A.{topic}"
        return wait_until_copied((source, topic), remote, COPIED, repeats_allowed=repeats).records

    def _change_groups(self, number: int) -> None:
        """Groups of this round commit and are synced; those of the round before are deleted."""
        source, target = self._nodes.source, self._nodes.target
        names = [f"g-{number}-{one}" for one in range(GROUPS)]
        for name in names:
            commit(source, name, {(STEADY, 0): 1 + number})
        wait_until(lambda: all(committed(target, name) for name in names), SYNCED, f"groups {names} are synced")
        old = [f"g-{number - 1}-{one}" for one in range(GROUPS)] if number else []
        for cluster in (source, target) if old else ():
            delete_groups(cluster, old)

    def _delete(self, topic: str) -> None:
        self._nodes.source.delete_topic(topic)
        self._nodes.target.delete_topic(f"A.{topic}")
        nodes = self._nodes.by_name.values()
        wait_until(
            lambda: not any(node.topic(FLOW, topic) for node in nodes), FORGOTTEN, f"{topic} is gone from /flows"
        )

    def _pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds

        def passed() -> bool:
            if time.monotonic() - self._sampled_at >= SAMPLED:
                self.samples.append(usage(self._nodes[OBSERVED]))
                self._sampled_at = time.monotonic()
            return time.monotonic() >= end

        wait_until(passed, seconds + 30, "the time has passed")


@pytest.mark.long
@pytest.mark.timeout(round(HOURS * 3600) + 1_200)
@pytest.mark.parametrize("mode", OURS, ids=str)
def test_nodes_copy_for_hours_without_leaks(mode: Mode, rng: random.Random) -> None:
    with (
        KafkaCluster("source", properties={"auto.create.topics.enable": "false"}) as source,
        KafkaCluster("target", properties={"auto.create.topics.enable": "false"}) as target,
        NodeGroup(source, target, (OBSERVED, VICTIM), properties=PROPERTIES | mode.properties()) as nodes,
    ):
        source.create_topic(STEADY, PARTITIONS)
        nodes.wait_shared()
        soak, records, number = Soak(nodes, mode, rng), 0, 0
        seconds = min(max(HOURS * 3600 / 10, ROUNDS_S[0]), ROUNDS_S[1])
        end = time.monotonic() + HOURS * 3600
        with Load(source, STEADY, partitions=PARTITIONS, per_second=STEADY_PER_SECOND) as steady:
            while number < FEWEST_ROUNDS or time.monotonic() < end:
                records += soak.play(number, seconds)
                number += 1
            steady.stop()
        records += soak.judge(STEADY)
        print(f"{number} rounds, {records} records")
        assert growth(soak.samples) == []
        observed: Node = nodes[OBSERVED]
        observed.wait_running()
        assert observed.stop() == 0
