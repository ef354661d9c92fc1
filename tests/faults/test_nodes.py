"""Nodes share a flow and one of them is killed, stopped or suspended: SIGKILL, SIGTERM, SIGSTOP.

Limits are the documented ones plus `NOISE` for two busy cores. The tests print what they measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.faults.node_group import (
    CONFIGS,
    COPIED,
    NOISE,
    PARTITIONS,
    PER_SECOND,
    SESSION,
    SHARED,
    STATUSES,
    STORED_EVERY,
    NodeGroup,
)
from tests.faults.observer import Observer
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.decisions import decisions, owners, verdict
from tests.lab.fixtures import unique_name
from tests.lab.freezing import freeze, thaw
from tests.lab.lanes import lanes
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.verify import Verdict
from tests.lab.waiting import require_within, wait_until

RESUMED = SESSION + 8.0  # seconds after kill -9
GAP = 4.0  # seconds without records in a partition when a node stops cleanly
REFRESH = 1.0  # seconds: refresh.topics.interval.seconds of these flows
LEASE = 15.0  # seconds without contact to its node after which a lane stops
ROUNDS = 30  # rebalances until two nodes started together share the flow: about ten, to revoke and assign tasks
IN_FLIGHT = 5.0  # maximum seconds that a record waits for its acknowledgement, on busy cores

# test_each_kind.py has a killed, a stopped and a suspended node.
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),  # seconds: a Spark that starts on busy cores takes up to a minute
]


@pytest.fixture(scope="module")
def group() -> Iterator[NodeGroup]:
    """Two nodes shared by all tests of this module, between two dedicated clusters."""
    with KafkaCluster("source") as source, KafkaCluster("target") as target, NodeGroup(source, target) as group:
        source.create_topic("t-first", PARTITIONS)
        write(source.bootstrap, "t-first", plain(100, partitions=PARTITIONS))
        group.wait_shared()
        yield group


@pytest.fixture(autouse=True)
def never_two_leaders(group: NodeGroup) -> Iterator[None]:
    """Check after each test that epochs never decrease and each epoch had one writer."""
    yield
    found = decisions(group.target, CONFIGS)
    assert found
    assert verdict(found) == []


@pytest.fixture
def topic(group: NodeGroup) -> str:
    """A topic with partitions in every source task, copied by both nodes."""
    group.wait_shared()
    name = group.source.create_topic(unique_name("t"), PARTITIONS)
    write(group.source.bootstrap, name, plain(2 * PARTITIONS, partitions=PARTITIONS))
    group.verify(name)
    return name


def test_nodes_started_together_share_the_flow_in_few_rebalances(group: NodeGroup) -> None:
    """Tasks do not move back and forth while the lanes of both nodes start."""
    assert group.wait_shared().flow["epoch"] < ROUNDS


def under_load(group: NodeGroup, topic: str) -> Load:
    return Load(group.source, topic, partitions=PARTITIONS, per_second=PER_SECOND)


def arriving(group: NodeGroup, topic: str) -> Arrivals:
    return Arrivals(group.target, f"A.{topic}", partitions=PARTITIONS)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_killed_node_is_replaced(group: NodeGroup, topic: str, role: str) -> None:
    leader, follower = group.roles()
    victim, other = (leader, follower) if role == "leader" else (follower, leader)
    affected = group.partitions_of(topic, victim.name)
    assert affected
    assert len(affected) < PARTITIONS
    written = Arrivals(group.source, topic, partitions=PARTITIONS)
    with (
        arriving(group, topic) as arrivals,
        written,
        Observer([victim, other], "A->B", written, arrivals) as observer,
        under_load(group, topic) as load,
    ):
        load.wait_for_more(2 * PER_SECOND)
        killed, killed_ms = time.monotonic(), time.time() * 1_000
        victim.kill()
        group.wait_shared(other.name)
        took = arrivals.wait_for_all(time.monotonic(), NOISE + GAP)
        load.wait_for_more(PER_SECOND)
        gaps = arrivals.gaps(killed, time.monotonic())
        victim.start()
        group.wait_shared()
        load.stop()
    print(f"{observer.reads} reads of /flows and /metrics; a lag was unknown for {observer.unknown_seconds:.1f} s")
    assert observer.wrong == []
    assert observer.unknown_seconds > SESSION / 4, "the lag is unknown until the other node takes over"
    print(f"the {role} killed: pauses {gaps}; {sorted(affected)} had to move; flowing {took:.1f} s after that")
    require_within(max(gaps.values()), RESUMED + NOISE, "records of all partitions arrive again")
    found = group.verify(topic, repeats_allowed=True)
    assert {one.partition for one in found.duplicated} <= affected, (
        "only partitions of the killed node have repeated records"
    )
    repeats_s = repeats_since(found, killed_ms)
    require_within(repeats_s, STORED_EVERY + IN_FLIGHT, "a record is repeated only if its offset was not stored yet")


def repeats_since(found: Verdict, moment_ms: float) -> float:
    """Return how many seconds before ``moment_ms`` the oldest repeated record was written."""
    return max(((moment_ms - one.content[3]) / 1_000 for one in found.duplicated), default=0.0)


def test_rolling_restart(group: NodeGroup, topic: str) -> None:
    """Rolling restart under load, follower first: short pauses, no lost or repeated records, few task moves."""
    leader, follower = group.roles()
    with arriving(group, topic) as arrivals, under_load(group, topic) as load:
        load.wait_for_more(2 * PER_SECOND)
        for role, node in (("follower", follower), ("leader", leader)):
            history = owners(group.target, STATUSES)
            began = time.monotonic()
            assert node.stop() == 0
            took = time.monotonic() - began
            group.wait_shared(*(name for name in group.by_name if name != node.name))
            arrivals.wait_for_all(time.monotonic(), COPIED)
            away = arrivals.gaps(began, time.monotonic())
            began = time.monotonic()
            node.start()
            group.wait_shared()
            arrivals.wait_for_all(time.monotonic(), COPIED)
            back = arrivals.gaps(began, time.monotonic())
            print(f"the {role} stopped in {took:.1f} s: pauses {away}; after its restart: pauses {back}")
            require_within(max(away.values()), GAP + NOISE, f"records arrive while the {role} stops")
            require_within(max(back.values()), GAP + NOISE, f"records arrive while the {role} restarts")
            after = owners(group.target, STATUSES)
            assert max(moves(history, after).values()) <= 2, f"{history} to {after}"
        load.stop()
    group.verify(topic)


def moves(before: dict[int, list[str]], after: dict[int, list[str]]) -> dict[int, int]:
    """Return how often each source task moved to another node between the two histories."""
    return {source_task: len(nodes) - len(before.get(source_task, [nodes[0]])) for source_task, nodes in after.items()}


def test_suspended_leader_loses_leadership(group: NodeGroup, topic: str) -> None:
    """Suspended beyond its session and leases: another node leads, and the lanes stop before the leader resumes."""
    leader, follower = group.roles()
    epoch = group.wait_shared().flow["epoch"]
    workers = lanes(leader)
    with under_load(group, topic) as load:
        load.wait_for_more(PER_SECOND)
        freeze(leader.process)
        try:
            stopped = time.monotonic()
            wait_until(lambda: leads(follower), SESSION + NOISE + 5, "the other node leads")
            print(f"the other node led {time.monotonic() - stopped:.1f} s after the leader was suspended")
            late = group.source.create_topic(unique_name("t-late"), 1)  # forces both nodes to write an assignment
            wait_until(
                lambda: not any(one.is_running() for one in workers),
                LEASE + NOISE,
                "its lanes stop when their lease expires",
            )
            group.wait_shared(follower.name)
        finally:
            thaw(leader.process)
        leader.process.wait_until_output(
            "lost leadership", SESSION + NOISE, "the old leader steps down after it resumes"
        )
        view = group.wait_shared()
        load.wait_for_more(PER_SECOND)
        load.stop()
    assert view.leader == follower.name
    assert view.flow["epoch"] > epoch
    group.verify(topic, repeats_allowed=True)
    write(group.source.bootstrap, late, plain(100))
    group.verify(late)


def leads(node: Node) -> bool:
    return bool(node.flow("A->B").get("leader") == node.name)


# tests/integration/test_flow_discovery.py has one node
def test_new_topics_and_partitions_are_copied_soon(group: NodeGroup) -> None:
    group.wait_shared()
    began = time.monotonic()
    topic = group.source.create_topic(unique_name("t"), 2)
    for partitions in (2, PARTITIONS):
        if partitions > 2:
            began = time.monotonic()
            group.source.grow_topic(topic, partitions)
        with Arrivals(group.target, f"A.{topic}", partitions=partitions) as arrivals:
            write(group.source.bootstrap, topic, plain(10 * partitions, partitions=partitions))
            took = arrivals.wait_for_all(began, COPIED)
        print(f"{partitions} partitions of a topic arrive {took:.1f} s after they were created")
        require_within(took, REFRESH + 2 + NOISE, "new partitions are copied")
    assert all(group.partitions_of(topic, name) for name in group.by_name), "both nodes copy some of the partitions"
    group.verify(topic)


def test_killed_processes_of_a_node_are_replaced(group: NodeGroup, topic: str) -> None:
    """Kill a lane of one node and the JVM of the other: the node restarts it, or the other node takes over."""
    leader, follower = group.roles()
    with arriving(group, topic) as arrivals, under_load(group, topic) as load:
        load.wait_for_more(PER_SECOND)
        for what, victim in (("a lane", lanes(leader)[0]), ("a JVM", follower.members("jvm")[0])):
            killed = time.monotonic()
            victim.kill()
            load.wait_for_more(PER_SECOND)
            arrivals.wait_for_all(time.monotonic(), SHARED)
            group.wait_shared()
            print(f"{what} killed: pauses {arrivals.gaps(killed, time.monotonic())}")
        load.stop()
    group.verify(topic, repeats_allowed=True)


def test_all_nodes_killed_together(group: NodeGroup, topic: str) -> None:
    with under_load(group, topic) as load:
        load.wait_for_more(PER_SECOND)
        for node in group.by_name.values():
            node.family()
        for node in group.by_name.values():
            node.kill()
        for node in group.by_name.values():
            node.start()
        group.wait_shared()
        load.wait_for_more(PER_SECOND)
        load.stop()
    group.verify(topic, repeats_allowed=True)


def test_both_clusters_restarted(group: NodeGroup, topic: str) -> None:
    with under_load(group, topic) as load:
        load.wait_for_more(PER_SECOND)
        for cluster in (group.source, group.target):
            cluster.broker(1).restart()
        load.wait_for_more(PER_SECOND)
        group.wait_shared()
        load.stop()
    group.verify(topic, repeats_allowed=True)


# tests/integration/test_reload.py: test_nodes_with_contradicting_files_report_it
def test_leader_configuration_applies_to_all_nodes(group: NodeGroup) -> None:
    """A follower whose file selects other topics and fewer tasks copies what the leader assigns."""
    leader, follower = group.roles()
    text = follower.file.read_text()
    other = group.source.create_topic(unique_name("other"), 1)
    write(group.source.bootstrap, other, plain(10))
    assert follower.stop() == 0
    follower.file.write_text(f"{text}\nA->B.topics=other-.*\nA->B.tasks.max=1\n")
    follower.start()
    try:
        assert group.wait_shared().leader == leader.name
        name = group.source.create_topic(unique_name("t"), PARTITIONS)
        write(group.source.bootstrap, name, plain(2 * PARTITIONS, partitions=PARTITIONS))
        group.verify(name)
        assert all(group.partitions_of(name, node) for node in group.by_name), "both nodes copy it"
        assert f"A.{other}" not in group.target.admin.list_topics(timeout=10).topics
    finally:
        follower.file.write_text(text)
