"""Soak test: one node under load for hours copies every topic exactly, without leaking memory, files or threads."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil
import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

HOURS = float(os.environ.get("SOAK_HOURS", "0.5"))
ROUND = 60.0  # seconds of load on one topic before it is verified and deleted, so that histories fit in memory
WARM_UP = 0.25  # share of the time: code is compiled, pools and caches fill
PARTITIONS = 6
PER_SECOND = 1_000
COPIED = 90.0
ROLES = ("node", "engine", "jvm", "worker")
GROWTH = 1.2  # allowed factor of memory after the warm-up: a JVM's heap size varies between collections
SLACK_MB = 32  # allowed in addition, for small processes
HANDLES = 10  # allowed variation in files or threads: broker connections, a pool


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of all processes of one role."""

    megabytes: float
    files: int
    threads: int


def usage(node: Node) -> dict[str, Usage]:
    found = {}
    for role in ROLES:
        members = node.members(role)
        found[role] = Usage(
            megabytes=sum(one.memory_full_info().uss for one in members) / 1e6,
            files=sum(one.num_fds() for one in members),
            threads=sum(one.num_threads() for one in members),
        )
    return found


def growth(before: Mapping[str, Usage], after: Mapping[str, Usage]) -> list[str]:
    """Return one line for each role whose usage grew beyond its limit."""
    return [
        f"{role}: {before[role]} became {after[role]}"
        for role in ROLES
        if after[role].megabytes > before[role].megabytes * GROWTH + SLACK_MB
        or after[role].files > before[role].files + HANDLES
        or after[role].threads > before[role].threads + HANDLES
    ]


@pytest.mark.long
@pytest.mark.timeout(round(HOURS * 3600) + 900)
def test_node_copies_for_hours_without_leaks(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    began = time.monotonic()
    properties = one_flow(cluster_a, cluster_b, aliases=("SoakA", "SoakB"), topics="soak-.*")
    with Node(properties, name="soaked") as node:
        node.wait_running()
        pids = {one.pid for one in node.family()}
        warm: dict[str, Usage] = {}
        records = 0
        for number in range(max(3, round(HOURS * 3600 / ROUND))):
            records += copy_one_topic(node, cluster_a, cluster_b, f"soak-{number}")
            now = usage(node)
            print(f"{time.monotonic() - began:.0f} s, {records} records: {now}")
            if not warm and time.monotonic() - began >= WARM_UP * HOURS * 3600:
                warm = now
        assert growth(warm, usage(node)) == []
        assert {one.pid for one in node.family() if psutil.pid_exists(one.pid)} == pids, "no process was replaced"
        node.wait_running()
        assert node.stop() == 0


def copy_one_topic(node: Node, source: KafkaCluster, target: KafkaCluster, topic: str) -> int:
    """Load a topic for one round, verify the copy, and delete the topic on both sides."""
    source.create_topic(topic, PARTITIONS)
    with Load(source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
        load.wait_for_more(1)
        end = time.monotonic() + min(ROUND, HOURS * 3600 / 3)
        wait_until(lambda: time.monotonic() >= end, ROUND + 30, "the round is over")
        load.stop()
    verdict = wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"SoakA.{topic}"), COPIED)
    for cluster, name in ((source, topic), (target, f"SoakA.{topic}")):
        cluster.admin.delete_topics([name])[name].result(30)
    wait_until(lambda: not node.topic("SoakA->SoakB", topic), COPIED, f"{topic} is gone from /flows")
    return verdict.records
