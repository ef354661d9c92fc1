"""Three nodes share one flow: some are killed, stop cleanly or restart. Their decisions are checked at the end."""

from __future__ import annotations

import time

import pytest

from tests.faults.node_group import CONFIGS, COPIED, NOISE, PARTITIONS, PER_SECOND, STATUSES, NodeGroup
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.decisions import decisions, owners, verdict
from tests.lab.load import Load
from tests.lab.records import plain, write
from tests.lab.waiting import require_within

NAMES = ("one", "two", "three")
UNCOVERED = 5.0  # seconds that a partition may not be copied while a node restarts


@pytest.mark.long
@pytest.mark.timeout(600)  # seconds: three Sparks start on the same cores
def test_two_of_three_nodes_stop() -> None:
    """DedicatedMirrorIntegrationTest.testMultiNodeCluster, plus faults."""
    with KafkaCluster("source") as source, KafkaCluster("target") as target, NodeGroup(source, target, NAMES) as group:
        topic = source.create_topic("t-shared", PARTITIONS)
        write(source.bootstrap, topic, plain(100, partitions=PARTITIONS))
        leader = group.wait_shared().leader
        copying = {name: group.partitions_of(topic, name) for name in NAMES}
        assert all(copying.values()), copying
        assert sorted(number for numbers in copying.values() for number in numbers) == list(range(PARTITIONS))

        killed, leaving = (group[name] for name in NAMES if name != leader)
        with Load(source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
            load.wait_for_more(PER_SECOND)
            killed.kill()
            group.wait_shared(leader, leaving.name)
            load.wait_for_more(PER_SECOND)
            assert leaving.stop() == 0
            group.wait_shared(leader)
            load.wait_for_more(PER_SECOND)
            killed.start()
            assert group.wait_shared(leader, killed.name).leader == leader
            load.wait_for_more(PER_SECOND)
            load.stop()
        found = group.verify(topic, repeats_allowed=True)
        assert {one.partition for one in found.duplicated} <= copying[killed.name], "only a kill repeats records"
        assert verdict(decisions(target, CONFIGS)) == []
        assert {name for nodes in owners(target, STATUSES).values() for name in nodes} == set(NAMES)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_rolling_restart_of_three_nodes() -> None:
    """Per restart only the tasks of that node move, away and back; nothing is repeated, and the pauses are short."""
    with KafkaCluster("source") as source, KafkaCluster("target") as target, NodeGroup(source, target, NAMES) as group:
        topic = source.create_topic("t-shared", PARTITIONS)
        write(source.bootstrap, topic, plain(100, partitions=PARTITIONS))
        group.wait_shared()
        with (
            Arrivals(target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
            Load(source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
        ):
            load.wait_for_more(2 * PER_SECOND)
            for name in NAMES:
                node, others = group[name], tuple(one for one in NAMES if one != name)
                before, history = group.wait_shared().sources, owners(target, STATUSES)
                began = time.monotonic()
                assert node.stop() == 0
                group.wait_shared(*others)
                node.start()
                group.wait_shared()
                arrivals.wait_for_all(time.monotonic(), COPIED)
                gaps, after = arrivals.gaps(began, time.monotonic()), owners(target, STATUSES)
                moved = {task: len(nodes) - len(history.get(task, nodes)) for task, nodes in after.items()}
                print(f"{name} restarted: moves {moved}, pauses {gaps}")
                require_within(max(gaps.values()), UNCOVERED + NOISE, f"records arrive while {name} restarts")
                assert all(
                    moves <= 2 if before[f"MirrorSourceConnector-{task}"] == name else moves == 0
                    for task, moves in moved.items()
                ), f"{before}: {history} to {after}"
            load.stop()
        group.verify(topic)
