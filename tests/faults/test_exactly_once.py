"""Exactly-once and kill -9: the other node continues at the last commit, and no record is lost or repeated."""

from __future__ import annotations

import pytest

from tests.faults.mode import EXACTLY_ONCE
from tests.faults.node_group import PARTITIONS, PER_SECOND, NodeGroup
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum
from tests.lab.load import Load

SHORT_SESSION = {"B.session.timeout.ms": "6000", "B.heartbeat.interval.ms": "1000"}  # the broker's minimum


@pytest.mark.long  # test_each_kind.py: test_killed_node_is_replaced
@pytest.mark.timeout(600)  # seconds: two Sparks start on busy cores
def test_killed_node_repeats_nothing(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """tests/faults/test_fault_table.py has the other faults."""
    properties = EXACTLY_ONCE.properties() | SHORT_SESSION | {"mm2.lanes": "1"}
    with NodeGroup(cluster_a, cluster_b, properties=properties) as nodes:
        topic = cluster_a.create_topic(unique_name("t"), PARTITIONS)
        _, victim = nodes.roles()
        (other,) = nodes.by_name.keys() - {victim.name}
        with Load(cluster_a, topic, partitions=PARTITIONS, per_second=4 * PER_SECOND) as load:
            load.wait_for_more(8 * PER_SECOND)
            victim.kill()
            nodes.wait_shared(other)
            load.wait_for_more(4 * PER_SECOND)
            load.stop()
        verdict = nodes.verify(topic)
        assert end_offset_sum(cluster_b.bootstrap, f"A.{topic}") > verdict.records, "transactions leave markers"
