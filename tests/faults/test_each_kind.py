"""One fault of each kind: nodes killed, stopped, suspended and cut off, their processes killed, and the brokers.

Two nodes run two flows, one with at-least-once and one with exactly-once. Each fault strikes both, under load, and each
topic is judged by what its flow guarantees. `make test-long` has each fault with other roles and moments.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import psutil
import pytest

from tests.faults.fault_times import pass_time
from tests.faults.mode import EXACTLY_ONCE
from tests.faults.node_group import COPIED, FLOW, NOISE, SESSION, SHARED, NodeGroup, View
from tests.lab.arrivals import Arrivals
from tests.lab.cable import CUT_OFF, Cable, listener_behind
from tests.lab.cluster import KafkaCluster
from tests.lab.decisions import decisions, verdict
from tests.lab.fixtures import unique_name
from tests.lab.freezing import suspended
from tests.lab.lanes import daemons, lanes
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import require_within, wait_until

EXACT_FLOW = "XA->XB"
STEMS = {FLOW: "t", EXACT_FLOW: "x"}  # of the names of the topics of each flow
PARTITIONS = 4  # of every topic
PER_SECOND = 400  # records, of each topic
FLUSH_S = 5  # seconds between stored offsets
FEW = PER_SECOND // 10  # repeated records; without looking at the target about FLUSH_S / 2 seconds' are repeated
TAKEN_OVER = SESSION + 8.0  # seconds without records after kill -9
GAP = 4.0  # seconds without records in a partition when a node stops cleanly
SUSPENDED = 18.0  # seconds: longer than the session of a node (10 s), and than the lease of its lanes (14 s)
RUNS = 60.0  # seconds until a process that was killed runs again, or one that waits for it

pytestmark = pytest.mark.timeout(600)  # seconds: a Spark that starts on busy cores takes up to a minute


PROPERTIES = {
    "clusters": "A, B, XA, XB",
    f"{EXACT_FLOW}.enabled": "true",
    f"{EXACT_FLOW}.topics": f"{STEMS[EXACT_FLOW]}-.*",
    f"{EXACT_FLOW}.tasks.max": "2",
    **EXACTLY_ONCE.properties("XA", "XB"),
    "mm2.lanes": "1",
    "emit.heartbeats.enabled": "false",
    "B.offset.flush.interval.ms": str(FLUSH_S * 1_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A topic that is written to, and what arrives of it."""

    topic: str
    source: KafkaCluster
    target: KafkaCluster
    load: Load
    arrivals: Arrivals

    def verify(self, *, repeats_allowed: bool) -> Verdict:
        """Check the copy. Raises GaveUp."""
        found = wait_until_copied(
            (self.source.bootstrap, self.topic),
            (self.target.bootstrap, self.arrivals.topic),
            COPIED,
            repeats_allowed=repeats_allowed,
        )
        print(f"{self.topic}: {found.records} records, {len(found.duplicated)} repeated")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """One topic of each flow."""

    plain: Loaded
    exact: Loaded

    def wait_for_more(self) -> None:
        """Wait until a second's records are written to each topic."""
        for one in (self.plain, self.exact):
            one.load.wait_for_more(PER_SECOND)

    def wait_for_copies(self) -> None:
        """Wait until records arrive in each partition of each remote topic."""
        began = time.monotonic()
        for one in (self.plain, self.exact):
            one.arrivals.wait_for_all(began, COPIED)

    def verify(self, *, repeats_allowed: bool) -> Verdict:
        """Stop writing and check each copy. ``repeats_allowed``: with at-least-once, whose verdict is returned."""
        for one in (self.plain, self.exact):
            one.load.stop()
        self.exact.verify(repeats_allowed=False)
        return self.plain.verify(repeats_allowed=repeats_allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two nodes. ``cable``: between node ``one`` and the target."""

    nodes: NodeGroup
    cable: Cable

    def wait_shared(self, *names: str) -> View:
        """Wait until exactly these nodes (default: both) copy topics of both flows. Returns the first flow."""
        wanted = set(names or self.nodes.by_name)
        view = self.nodes.wait_shared(*wanted)

        def shared() -> bool:
            tasks = self.nodes[next(iter(wanted))].flow(EXACT_FLOW).get("tasks", ())
            sources = [one for one in tasks if one["kind"] == "source"]
            running = {one["node"] for one in sources if one["state"] == "RUNNING"}
            return running == wanted and all(one["state"] == "RUNNING" for one in sources)

        wait_until(shared, SHARED, f"{', '.join(sorted(wanted))} share {EXACT_FLOW}")
        return view

    @contextmanager
    def loads(self) -> Iterator[Loads]:
        """Write to a new topic of each flow while the block runs. It starts when records arrive in all partitions."""
        self.wait_shared()
        with ExitStack() as ends:
            found = Loads(plain=self._loaded(FLOW, ends), exact=self._loaded(EXACT_FLOW, ends))
            found.wait_for_copies()
            found.wait_for_more()
            yield found

    def _loaded(self, flow: str, ends: ExitStack) -> Loaded:
        source, target = self.nodes.source, self.nodes.target
        topic = source.create_topic(unique_name(STEMS[flow]), PARTITIONS)
        remote = f"{flow.partition('->')[0]}.{topic}"
        arrivals = ends.enter_context(Arrivals(target, remote, partitions=PARTITIONS))
        load = ends.enter_context(Load(source, topic, partitions=PARTITIONS, per_second=PER_SECOND))
        return Loaded(topic=topic, source=source, target=target, load=load, arrivals=arrivals)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with ExitStack() as ends:
        cable = ends.enter_context(Cable("one to target"))
        source = ends.enter_context(KafkaCluster("source"))
        target = ends.enter_context(KafkaCluster("target", listeners=(listener_behind(cable),)))
        cable.plug(target.bootstrap_of(CUT_OFF))
        for stem in STEMS.values():
            source.create_topic(f"{stem}-first", PARTITIONS)
        clusters = {
            f"{alias}.bootstrap.servers": cluster.bootstrap
            for alias, cluster in (("A", source), ("B", target), ("XA", source), ("XB", target))
        }
        far = dict.fromkeys(("B.bootstrap.servers", "XB.bootstrap.servers"), cable.address)
        nodes = NodeGroup(source, target, properties=PROPERTIES | clusters, properties_of={"one": far})
        ends.enter_context(nodes)
        pair = Pair(nodes=nodes, cable=cable)
        pair.wait_shared()
        yield pair


@pytest.fixture(autouse=True)
def never_two_leaders(pair: Pair) -> Iterator[None]:
    """Check after each test that epochs never decrease and each epoch had one writer."""
    yield
    for alias in ("A", "XA"):
        found = decisions(pair.nodes.target, f"mm2-configs.{alias}.internal")
        assert found
        assert verdict(found) == []


def test_killed_node_is_replaced(pair: Pair) -> None:
    """Records that were copied and whose offsets were not stored are found on the target, not repeated."""
    victim, other = pair.nodes.roles()
    with pair.loads() as loads:
        topic = loads.plain.topic
        affected = pair.nodes.partitions_of(topic, victim.name)
        assert 0 < len(affected) < PARTITIONS
        pass_time(FLUSH_S + 1)  # the offsets of all partitions are stored once
        killed = time.monotonic()
        victim.kill()
        pair.wait_shared(other.name)
        loads.wait_for_copies()
        gaps = loads.plain.arrivals.gaps(killed, time.monotonic())
        victim.start()
        pair.wait_shared()
        loads.wait_for_copies()
        found = loads.verify(repeats_allowed=True)
    print(f"the leader killed: pauses {gaps}; {sorted(affected)} had to move")
    assert {one.partition for one in found.duplicated} <= affected
    assert len(found.duplicated) < FEW
    require_within(max(gaps.values()), TAKEN_OVER + NOISE, "records of all partitions arrive again")


def test_stopped_node_repeats_nothing(pair: Pair) -> None:
    leader, other = pair.nodes.roles()
    with pair.loads() as loads:
        stopped = time.monotonic()
        assert leader.stop() == 0
        pair.wait_shared(other.name)
        loads.wait_for_copies()
        away = loads.plain.arrivals.gaps(stopped, time.monotonic())
        started = time.monotonic()
        leader.start()
        pair.wait_shared()
        loads.wait_for_copies()
        back = loads.plain.arrivals.gaps(started, time.monotonic())
        loads.verify(repeats_allowed=False)
    print(f"the leader stopped: pauses {away}; after its restart: pauses {back}")
    for gaps in (away, back):
        require_within(max(gaps.values()), GAP + NOISE, "records arrive while the leader restarts")


def test_suspended_node_writes_nothing_behind_its_successor(pair: Pair) -> None:
    """All its processes are suspended, as when a virtual machine is paused. Another node leads when they resume."""
    leader, follower = pair.nodes.roles()
    epoch = pair.wait_shared().flow["epoch"]
    with pair.loads() as loads:
        suspended_at = time.monotonic()
        with suspended(leader.family()):
            wait_until(lambda: leads(follower), SESSION + NOISE + 5, "the other node leads")
            loads.wait_for_copies()
            pass_time(max(0.0, suspended_at + SUSPENDED - time.monotonic()))
        leader.process.wait_until_output("lost leadership", NOISE, "the old leader steps down after it resumes")
        view = pair.wait_shared()
        loads.wait_for_copies()
        assert loads.verify(repeats_allowed=True).stale == ()
    assert view.leader == follower.name
    assert view.flow["epoch"] > epoch


def leads(node: Node) -> bool:
    return bool(node.flow(FLOW).get("leader") == node.name)


def test_node_without_target_releases_its_tasks(pair: Pair) -> None:
    """Packets between the node and the target are dropped without an error."""
    one = pair.nodes["one"]
    with pair.loads() as loads:
        cut = time.monotonic()
        pair.cable.cut()
        try:
            wait_until(
                lambda: one.flow(FLOW).get("leader", "no response") is None,
                SESSION + NOISE,
                "the node has noticed that it lost its membership",
            )
            wait_until(lambda: one.flow(FLOW).get("reasons") and not one.healthy, NOISE, "the node reports the reason")
            pair.wait_shared("two")
            loads.wait_for_copies()
            gaps = loads.plain.arrivals.gaps(cut, time.monotonic())
        finally:
            pair.cable.heal()
        pair.wait_shared()
        loads.wait_for_copies()
        loads.verify(repeats_allowed=True)
    print(f"cut off the target: pauses {gaps}")
    require_within(max(gaps.values()), TAKEN_OVER + NOISE, "the other node takes over")


VICTIMS: dict[str, Callable[[Node], list[psutil.Process]]] = {  # the daemon of lanes: test_processes.py
    "lane": lanes,
    "JVM": lambda node: node.members("jvm"),  # the engine ends with it
}


def test_killed_processes_are_replaced(pair: Pair, rng: random.Random) -> None:
    """In random order, so that a fault often hits during recovery from the previous one."""
    node = rng.choice(list(pair.nodes.by_name.values()))
    roles = rng.sample(sorted(VICTIMS), len(VICTIMS))
    print(f"killed on {node.name}:", ", ".join(roles))
    with pair.loads() as loads:
        for role in roles:
            processes = wait_until(partial(VICTIMS[role], node), RUNS, f"{node.name} has a {role} to kill")
            with suppress(psutil.NoSuchProcess):  # it may be exiting because of an earlier fault
                max(processes, key=lambda one: one.create_time()).kill()
            loads.wait_for_more()
        loads.wait_for_copies()
        pair.wait_shared()
        loads.verify(repeats_allowed=True)
    left = [len(processes) for processes in (daemons(node), node.members("jvm"), node.members("engine"))]
    assert left == [1, 1, 1], "no orphan is left"


def test_brokers_are_killed(pair: Pair) -> None:
    with pair.loads() as loads:
        for cluster in (pair.nodes.source, pair.nodes.target):
            broker = cluster.broker(1)
            broker.kill()
            broker.restart()
            loads.wait_for_more()
        pair.wait_shared()
        loads.wait_for_copies()
        loads.verify(repeats_allowed=True)
