"""Network partitions between a node and a cluster, or between nodes: packets are dropped without an error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.faults.node_group import CONFIGS, COPIED, FLOW, NOISE, PARTITIONS, PER_SECOND, SESSION, NodeGroup
from tests.lab.arrivals import Arrivals
from tests.lab.cable import CUT_OFF, Cable, listener_behind
from tests.lab.cluster import KafkaCluster
from tests.lab.decisions import decisions, verdict
from tests.lab.fixtures import unique_name
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.waiting import require_within, wait_until

TAKEN_OVER = SESSION + 8.0  # seconds, as after kill -9
CUT_FOR = 20.0  # seconds without contact between nodes: longer than session and lease
REPORTED = 12.0  # seconds: flows.partition.timeouts.Timeouts.unanswered_report_s, and two reports

pytestmark = [
    pytest.mark.long,  # test_each_kind.py: test_node_without_target_releases_its_tasks
    pytest.mark.timeout(600),  # seconds: a Spark that starts on busy cores takes up to a minute
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cables:
    """Connections that a test can cut: from node ``one`` to each cluster, and from the other node to it."""

    source: Cable
    target: Cable
    node: Cable


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """Two nodes; all connections of node ``one`` go through cables."""

    group: NodeGroup
    cables: Cables


@pytest.fixture(scope="module")
def wired() -> Iterator[Wired]:
    with ExitStack() as ends:
        cables = Cables(
            source=ends.enter_context(Cable("one to source")),
            target=ends.enter_context(Cable("one to target")),
            node=ends.enter_context(Cable("two to one")),
        )
        source, target = (
            ends.enter_context(KafkaCluster(name, listeners=(listener_behind(cable),)))
            for name, cable in (("source", cables.source), ("target", cables.target))
        )
        cables.source.plug(source.bootstrap_of(CUT_OFF))
        cables.target.plug(target.bootstrap_of(CUT_OFF))
        far = {
            "A.bootstrap.servers": cables.source.address,
            "B.bootstrap.servers": cables.target.address,
            "rest.advertised.host.name": "127.0.0.1",
            "rest.advertised.port": str(cables.node.port),
        }
        source.create_topic("t-first", PARTITIONS)
        group = ends.enter_context(NodeGroup(source, target, properties_of={"one": far}))
        cables.node.plug(group["one"].url.removeprefix("http://"))
        group.wait_shared()
        yield Wired(group=group, cables=cables)


@pytest.fixture
def topic(wired: Wired) -> str:
    wired.group.wait_shared()
    name = wired.group.source.create_topic(unique_name("t"), PARTITIONS)
    write(wired.group.source.bootstrap, name, plain(2 * PARTITIONS, partitions=PARTITIONS))
    wired.group.verify(name)
    return name


def test_node_without_target_releases_its_tasks(wired: Wired, topic: str) -> None:
    group, one = wired.group, wired.group["one"]
    with (
        Arrivals(group.target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
        Load(group.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
    ):
        load.wait_for_more(PER_SECOND)
        cut = time.monotonic()
        wired.cables.target.cut()
        try:
            wait_until(
                lambda: one.flow(FLOW).get("leader", "no response") is None,
                SESSION + NOISE,
                "the node has noticed that it lost its membership",
            )
            wait_until(
                lambda: one.flow(FLOW).get("reasons") and not one.healthy, 3 * NOISE, "the node reports the reason"
            )
            group.wait_shared("two")
            arrivals.wait_for_all(time.monotonic(), COPIED)
            gaps = arrivals.gaps(cut, time.monotonic())
            print(f"cut off the target: pauses {gaps}")
            require_within(max(gaps.values()), TAKEN_OVER + NOISE, "the other node takes over")
        finally:
            wired.cables.target.heal()
        group.wait_shared()
        load.wait_for_more(PER_SECOND)
        load.stop()
    group.verify(topic, repeats_allowed=True)
    assert verdict(decisions(group.target, CONFIGS)) == []


def test_node_without_source_reports_and_resumes(wired: Wired, topic: str) -> None:
    group = wired.group
    mine = group.partitions_of(topic, "two")
    with (
        Arrivals(group.target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
        Load(group.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
    ):
        load.wait_for_more(PER_SECOND)
        cut = time.monotonic()
        wired.cables.source.cut()
        try:
            reported = wait_until(
                lambda: errors(group["one"], topic), REPORTED + 2 * NOISE, "the node reports the error"
            )
            print(f"reported after {time.monotonic() - cut:.0f} s: {reported[0]}")
            wait_until(lambda: not group["one"].healthy, 3 * NOISE, "/health reports it too")
            gaps = arrivals.gaps(cut, time.monotonic())
            print(f"cut off the source: pauses {gaps}; node two copies {sorted(mine)}")
            longest = max(gap for number, gap in gaps.items() if number in mine)
            require_within(longest, NOISE, "records of the other node keep arriving")
        finally:
            wired.cables.source.heal()
        arrivals.wait_for_all(time.monotonic(), COPIED)
        load.stop()
    group.verify(topic, repeats_allowed=True)
    group.wait_shared()


def errors(node: Node, topic: str) -> list[str]:
    """Return the errors that ``node`` reports for partitions of ``topic``."""
    return [part["error"] for part in node.topic(FLOW, topic).get("partitions", ()) if part["error"]]


def test_nodes_without_contact_to_each_other_keep_copying(wired: Wired, topic: str) -> None:
    group = wired.group
    before = group.wait_shared()
    with (
        Arrivals(group.target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
        Load(group.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
    ):
        wired.cables.node.cut()
        try:
            cut = time.monotonic()
            load.wait_for_more(round(CUT_FOR * PER_SECOND))
            require_within(max(arrivals.gaps(cut, time.monotonic()).values()), NOISE, "records keep arriving")
        finally:
            wired.cables.node.heal()
        load.stop()
    after = group.wait_shared()
    assert (after.leader, after.sources) == (before.leader, before.sources)
    group.verify(topic)
