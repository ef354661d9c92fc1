"""Processes of a node are suspended for longer than its session, as when a virtual machine is paused.

Another node, or another lane, takes over. Whatever the suspended processes wrote after they resume would lie behind
newer records: it would be stale, and a compacted topic would keep it.
"""

from __future__ import annotations

import time

import pytest

from tests.faults.node_group import PARTITIONS, PER_SECOND, NodeGroup
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.freezing import suspended
from tests.lab.load import Load

SUSPENDED = 18.0  # seconds: longer than the session of the node (10 s) and than the lease of its lanes (14 s)
ALL = ("node", "engine", "jvm", "worker")

# test_each_kind.py: test_suspended_node_writes_nothing_behind_its_successor
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("roles", "times"),
    [
        pytest.param(ALL, 1, id="all"),
        pytest.param(ALL, 5, id="all-repeatedly"),
        *(pytest.param((role,), 2, id=role) for role in ALL),
    ],
)
def test_suspended_processes_write_nothing_behind_their_successors(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, roles: tuple[str, ...], times: int
) -> None:
    with NodeGroup(cluster_a, cluster_b) as nodes:
        topic = cluster_a.create_topic(unique_name("t"), PARTITIONS)
        nodes.wait_shared()
        with Load(cluster_a, topic, partitions=PARTITIONS, per_second=4 * PER_SECOND) as load:
            for _ in range(times):
                _, follower = nodes.roles()
                load.wait_for_more(4 * PER_SECOND)
                with suspended([process for role in roles for process in follower.members(role)]):
                    time.sleep(SUSPENDED)
                nodes.wait_shared()
            load.wait_for_more(PER_SECOND)
            load.stop()
        assert nodes.verify(topic, repeats_allowed=True).stale == ()
