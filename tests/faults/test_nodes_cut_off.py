"""Networks that break between a node and a cluster, or between nodes: nothing passes, and nobody is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from mm2.core.client_settings import SecurityProtocol
from tests.faults.arrivals import Arrivals
from tests.faults.crew import CONFIGS, COPIED, FLOW, NOISE, PARTITIONS, PER_SECOND, SESSION, Crew
from tests.faults.decisions import decisions, verdict
from tests.faults.load import Load
from tests.lab.cable import Cable
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.listeners import Listener
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until

CUT_OFF = "CUTOFF"  # the listener that one node uses
TAKEN_OVER = SESSION + 8.0  # seconds, as after kill -9
LASTS = 20.0  # seconds that nodes do not hear of each other: longer than session and lease
GIVES_UP = 12.0  # seconds: flows.patience.SILENT_S, and two reports

pytestmark = pytest.mark.timeout(600)  # seconds: a Spark that starts on busy cores takes up to a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Cables:
    """What can be cut: node ``one`` to each cluster, and other nodes to it."""

    source: Cable
    target: Cable
    node: Cable


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """Node ``one`` behind cables, node ``two`` beside it."""

    crew: Crew
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
            ends.enter_context(KafkaCluster(name, listeners=(behind(cable),)))
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
        crew = ends.enter_context(Crew(source, target, properties_of={"one": far}))
        cables.node.plug(crew["one"].url.removeprefix("http://"))
        crew.wait_shared()
        yield Wired(crew=crew, cables=cables)


def behind(cable: Cable) -> Listener:
    return Listener(protocol=SecurityProtocol.PLAINTEXT, name=CUT_OFF, advertised=cable.address)


@pytest.fixture
def topic(wired: Wired) -> str:
    wired.crew.wait_shared()
    name = wired.crew.source.create_topic(unique_name("t"), PARTITIONS)
    write(wired.crew.source.bootstrap, name, plain(2 * PARTITIONS, partitions=PARTITIONS))
    wired.crew.verify(name)
    return name


def test_a_node_that_cannot_reach_the_target_lets_go(wired: Wired, topic: str) -> None:
    crew, one = wired.crew, wired.crew["one"]
    with (
        Arrivals(crew.target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
        Load(crew.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
    ):
        load.wait_for_more(PER_SECOND)
        cut = time.monotonic()
        wired.cables.target.cut()
        try:
            wait_until(lambda: one.flow(FLOW)["leader"] is None, SESSION + NOISE, "the node knows that it is out")
            assert one.flow(FLOW)["reasons"]
            assert not one.healthy
            crew.wait_shared("two")
            arrivals.wait_for_all(time.monotonic(), COPIED)
            gaps = arrivals.gaps(cut, time.monotonic())
            print(f"cut off the target: pauses {gaps}")
            assert max(gaps.values()) < TAKEN_OVER + NOISE
        finally:
            wired.cables.target.heal()
        crew.wait_shared()
        load.wait_for_more(PER_SECOND)
        load.stop()
    crew.verify(topic, repeats_allowed=True)
    assert verdict(decisions(crew.target, CONFIGS)) == []


def test_a_node_that_cannot_reach_the_source_goes_on_when_it_can(wired: Wired, topic: str) -> None:
    crew = wired.crew
    mine = crew.partitions_of(topic, "two")
    with (
        Arrivals(crew.target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
        Load(crew.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
    ):
        load.wait_for_more(PER_SECOND)
        cut = time.monotonic()
        wired.cables.source.cut()
        try:
            said = wait_until(lambda: errors(crew["one"], topic), GIVES_UP + 2 * NOISE, "the node says what is wrong")
            print(f"after {time.monotonic() - cut:.0f} s it says: {said[0]}")
            wait_until(lambda: not crew["one"].healthy, NOISE, "its health says so too")
            gaps = arrivals.gaps(cut, time.monotonic())
            print(f"cut off the source: pauses {gaps}; node two copies {sorted(mine)}")
            assert max(gap for number, gap in gaps.items() if number in mine) < NOISE, "the other goes on"
        finally:
            wired.cables.source.heal()
        arrivals.wait_for_all(time.monotonic(), COPIED)
        load.stop()
    crew.verify(topic, repeats_allowed=True)
    crew.wait_shared()


def errors(node: Node, topic: str) -> list[str]:
    """What the node says about partitions that it copies."""
    return [part["error"] for part in node.topic(FLOW, topic).get("partitions", ()) if part["error"]]


def test_nodes_that_cannot_reach_each_other_go_on(wired: Wired, topic: str) -> None:
    crew = wired.crew
    before = crew.wait_shared()
    with (
        Arrivals(crew.target, f"A.{topic}", partitions=PARTITIONS) as arrivals,
        Load(crew.source, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load,
    ):
        wired.cables.node.cut()
        try:
            cut = time.monotonic()
            load.wait_for_more(round(LASTS * PER_SECOND))
            assert max(arrivals.gaps(cut, time.monotonic()).values()) < NOISE
        finally:
            wired.cables.node.heal()
        load.stop()
    after = crew.wait_shared()
    assert (after.leader, after.sources) == (before.leader, before.sources)
    crew.verify(topic)
