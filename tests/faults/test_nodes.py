"""Several nodes share a flow, and any of them may go at any moment: by kill -9, by SIGTERM, by standing still.

Limits are those of a cluster of workers with room for two busy cores (`NOISE`); what was measured is printed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewPartitions

from tests.faults.arrivals import Arrivals
from tests.faults.crew import (
    CONFIGS,
    COPIED,
    NOISE,
    PARTITIONS,
    PER_SECOND,
    SESSION,
    SHARED,
    STATUSES,
    STORED_EVERY,
    Crew,
)
from tests.faults.decisions import decisions, owners, verdict
from tests.faults.load import Load
from tests.faults.workers import lanes
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.verify import Verdict
from tests.lab.waiting import wait_until

FLOWS_AGAIN = SESSION + 8.0  # seconds after kill -9
GAP = 4.0  # seconds without records in any partition when a node leaves in order
REFRESH = 1.0  # seconds: refresh.topics.interval.seconds of these flows
LEASE = 15.0  # seconds after which lanes that hear nothing of their node end
ROUNDS = 30  # until two nodes that started together share the flow: about ten, for tasks taken and given
IN_FLIGHT = 5.0  # seconds that a record may have waited in the copier before it was acknowledged, on busy cores

pytestmark = pytest.mark.timeout(600)  # seconds: a Spark that starts on busy cores takes up to a minute


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """Two nodes that live through all tests here, between clusters that are nobody else's."""
    with KafkaCluster("source") as source, KafkaCluster("target") as target, Crew(source, target) as crew:
        source.create_topic("t-first", PARTITIONS)
        write(source.bootstrap, "t-first", plain(100, partitions=PARTITIONS))
        crew.wait_shared()
        yield crew


@pytest.fixture(autouse=True)
def never_two_leaders(crew: Crew) -> Iterator[None]:
    """After each test: every list is newer than the one before it, and every epoch had one writer."""
    yield
    found = decisions(crew.target, CONFIGS)
    assert found
    assert verdict(found) == []


@pytest.fixture
def topic(crew: Crew) -> str:
    """A topic with a list of its own in every slot, already flowing through both nodes."""
    crew.wait_shared()
    name = crew.source.create_topic(unique_name("t"), PARTITIONS)
    write(crew.source.bootstrap, name, plain(2 * PARTITIONS, partitions=PARTITIONS))
    crew.verify(name)
    return name


def test_nodes_that_start_together_settle_at_once(crew: Crew) -> None:
    """While neither has a lane yet, one of them is first; they do not go back and forth."""
    assert crew.wait_shared().flow["epoch"] < ROUNDS


def under_load(crew: Crew, topic: str) -> Load:
    return Load(crew.source, topic, partitions=PARTITIONS, per_second=PER_SECOND)


def arriving(crew: Crew, topic: str) -> Arrivals:
    return Arrivals(crew.target, f"A.{topic}", partitions=PARTITIONS)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_killed_node_is_replaced(crew: Crew, topic: str, role: str) -> None:
    leader, follower = crew.roles()
    victim, other = (leader, follower) if role == "leader" else (follower, leader)
    touched = crew.partitions_of(topic, victim.name)
    assert touched
    assert len(touched) < PARTITIONS
    with arriving(crew, topic) as arrivals, under_load(crew, topic) as load:
        load.wait_for_more(2 * PER_SECOND)
        killed, killed_ms = time.monotonic(), time.time() * 1_000
        victim.kill()
        crew.wait_shared(other.name)
        took = arrivals.wait_for_all(time.monotonic(), NOISE + GAP)
        load.wait_for_more(PER_SECOND)
        load.stop()
        gaps = arrivals.gaps(killed, time.monotonic())
    victim.start()
    print(f"the {role} killed: pauses {gaps}; {sorted(touched)} had to move; flowing {took:.1f} s after that")
    assert max(gaps.values()) < FLOWS_AGAIN + NOISE
    found = crew.verify(topic, repeats_allowed=True)
    assert {one.partition for one in found.duplicated} <= touched, "who stayed repeats nothing"
    assert repeats_since(found, killed_ms) < STORED_EVERY + IN_FLIGHT, "what was stored is not repeated"
    crew.wait_shared()


def repeats_since(found: Verdict, moment_ms: float) -> float:
    """How many seconds before that moment the oldest repeated record was written."""
    return max(((moment_ms - one.content[3]) / 1_000 for one in found.duplicated), default=0.0)


def test_nodes_restarted_one_after_the_other(crew: Crew, topic: str) -> None:
    """The follower, then the leader, under load: no pause that matters, nothing lost or repeated, few moves."""
    leader, follower = crew.roles()
    with arriving(crew, topic) as arrivals, under_load(crew, topic) as load:
        load.wait_for_more(2 * PER_SECOND)
        for role, node in (("follower", follower), ("leader", leader)):
            history = owners(crew.target, STATUSES)
            began = time.monotonic()
            assert node.stop() == 0
            took = time.monotonic() - began
            crew.wait_shared(*(name for name in crew.nodes if name != node.name))
            arrivals.wait_for_all(time.monotonic(), COPIED)
            away = arrivals.gaps(began, time.monotonic())
            began = time.monotonic()
            node.start()
            crew.wait_shared()
            arrivals.wait_for_all(time.monotonic(), COPIED)
            back = arrivals.gaps(began, time.monotonic())
            print(f"the {role} left in {took:.1f} s: pauses {away}; came back: pauses {back}")
            assert max(away.values()) < GAP + NOISE
            assert max(back.values()) < GAP + NOISE
            after = owners(crew.target, STATUSES)
            assert max(moves(history, after).values()) <= 2, f"{history} to {after}"
        load.stop()
    crew.verify(topic)


def moves(before: dict[int, list[str]], after: dict[int, list[str]]) -> dict[int, int]:
    """How often each slot changed its node since."""
    return {slot: len(nodes) - len(before.get(slot, [nodes[0]])) for slot, nodes in after.items()}


def test_a_leader_that_stood_still_leads_no_more(crew: Crew, topic: str) -> None:
    """For longer than its session and its leases: another leads, and its lanes end before it wakes up."""
    leader, follower = crew.roles()
    epoch = crew.wait_shared().flow["epoch"]
    workers = lanes(leader)
    with under_load(crew, topic) as load:
        load.wait_for_more(PER_SECOND)
        leader.process.signal(signal.SIGSTOP)
        try:
            stopped = time.monotonic()
            wait_until(lambda: leads(follower), SESSION + NOISE + 5, "the other node leads")
            print(f"the other led {time.monotonic() - stopped:.1f} s after the leader stood still")
            late = crew.source.create_topic(unique_name("t-late"), 1)  # something to decide on, for both
            wait_until(lambda: not any(one.is_running() for one in workers), LEASE + NOISE, "its lanes end by lease")
            crew.wait_shared(follower.name)
        finally:
            leader.process.signal(signal.SIGCONT)
        leader.process.wait_until_output("no longer leads", NOISE, "it steps down when it wakes up")
        view = crew.wait_shared()
        load.wait_for_more(PER_SECOND)
        load.stop()
    assert view.leader == follower.name
    assert view.flow["epoch"] > epoch
    crew.verify(topic, repeats_allowed=True)
    write(crew.source.bootstrap, late, plain(100))
    crew.verify(late)


def leads(node: Node) -> bool:
    return bool(node.flow("A->B").get("leader") == node.name)


def test_new_topics_and_partitions_flow_soon(crew: Crew) -> None:
    crew.wait_shared()
    began = time.monotonic()
    topic = crew.source.create_topic(unique_name("t"), 2)
    for partitions in (2, PARTITIONS):
        if partitions > 2:
            began = time.monotonic()
            grow(crew.source, topic, partitions)
        with Arrivals(crew.target, f"A.{topic}", partitions=partitions) as arrivals:
            write(crew.source.bootstrap, topic, plain(10 * partitions, partitions=partitions))
            took = arrivals.wait_for_all(began, COPIED)
        print(f"{partitions} partitions of a topic flow {took:.1f} s after they were made")
        assert took < REFRESH + 2 + NOISE
    assert all(crew.partitions_of(topic, name) for name in crew.nodes), "both nodes got some"
    crew.verify(topic)


def grow(cluster: KafkaCluster, topic: str, partitions: int) -> None:
    for future in cluster.admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(30)


def test_processes_of_one_node_die(crew: Crew, topic: str) -> None:
    """A lane of one node and the JVM of the other: repaired on the spot, or the other node takes over."""
    leader, follower = crew.roles()
    with arriving(crew, topic) as arrivals, under_load(crew, topic) as load:
        load.wait_for_more(PER_SECOND)
        for what, victim in (("a lane", lanes(leader)[0]), ("a JVM", follower.members("jvm")[0])):
            killed = time.monotonic()
            victim.kill()
            load.wait_for_more(PER_SECOND)
            arrivals.wait_for_all(time.monotonic(), SHARED)
            crew.wait_shared()
            print(f"{what} killed: pauses {arrivals.gaps(killed, time.monotonic())}")
        load.stop()
    crew.verify(topic, repeats_allowed=True)


def test_all_nodes_killed_at_once(crew: Crew, topic: str) -> None:
    with under_load(crew, topic) as load:
        load.wait_for_more(PER_SECOND)
        for node in crew.nodes.values():
            node.family()
        for node in crew.nodes.values():
            node.kill()
        for node in crew.nodes.values():
            node.start()
        crew.wait_shared()
        load.wait_for_more(PER_SECOND)
        load.stop()
    crew.verify(topic, repeats_allowed=True)


def test_both_clusters_restarted(crew: Crew, topic: str) -> None:
    with under_load(crew, topic) as load:
        load.wait_for_more(PER_SECOND)
        for cluster in (crew.source, crew.target):
            cluster.broker(1).restart()
        load.wait_for_more(PER_SECOND)
        crew.wait_shared()
        load.stop()
    crew.verify(topic, repeats_allowed=True)


def test_the_leaders_file_decides_what_is_replicated(crew: Crew) -> None:
    """A follower whose file names other topics and fewer tasks copies what the leader gives it."""
    leader, follower = crew.roles()
    text = follower.file.read_text()
    other = crew.source.create_topic(unique_name("other"), 1)
    write(crew.source.bootstrap, other, plain(10))
    assert follower.stop() == 0
    follower.file.write_text(f"{text}\nA->B.topics=other-.*\nA->B.tasks.max=1\n")
    follower.start()
    try:
        assert crew.wait_shared().leader == leader.name
        name = crew.source.create_topic(unique_name("t"), PARTITIONS)
        write(crew.source.bootstrap, name, plain(2 * PARTITIONS, partitions=PARTITIONS))
        crew.verify(name)
        assert all(crew.partitions_of(name, node) for node in crew.nodes), "both nodes copy it"
        assert f"A.{other}" not in crew.target.admin.list_topics(timeout=10).topics
    finally:
        follower.file.write_text(text)
