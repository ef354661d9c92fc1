"""Flows with other aliases in topic names than the clusters', copied by Java, by mm2, and by Java again, with one file.

A->B has source.cluster.alias and target.cluster.alias. B->A has none in its names: both are empty, and so is the
separator, by which Java keeps the names of topics. A->C has a converter, with which Java writes other records than mm2.

What Java wrote is stored in ``tests/golden/java-4.3.1-aliases.json``, with which
`tests/golden/test_java_ignored_keys.py` compares our names. ``MM2_WRITE_RECORDED=1`` writes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import SourceKey, decode_key
from mm2.core.wire.formats import Checkpoint, Heartbeat
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import commit
from tests.lab.history import count, end_offset_sum, read_topic
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.node import RUNS_WITHIN, Node
from tests.lab.records import plain, write
from tests.lab.settings import ONE_COPY
from tests.lab.verify import compare
from tests.lab.waiting import wait_until
from tests.parity.internal_records import positions, stored, syncs
from tests.parity.recorded import agrees

pytestmark = [
    pytest.mark.timeout(300),  # the first test runs everything
    # test_handover.py, tests/integration/test_flow_names.py, tests/unit/node/source/test_converted_copies.py
    pytest.mark.long,
]

RECORDS = 60  # of each topic in each phase
SOON = 60.0  # seconds for a Java MirrorMaker, or Spark, to start and copy beside two brokers on two cores
ALIAS, CONVERTER = "A->B.source.cluster.alias", "A->C.value.converter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
GROUP = "readers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One flow: its clusters, the topic it copies and the copy, and the names of its internal topics."""

    source: KafkaCluster
    target: KafkaCluster
    topic: str
    remote: str
    offsets: str
    syncs: str
    checkpoints: str

    def clusters_in_offsets(self) -> set[str]:
        """The names of the source in the keys of source offsets."""
        keys = (decode_key(one.key) for one in stored(read_topic(self.target.bootstrap, self.offsets)))
        return {key.cluster for key in keys if isinstance(key, SourceKey)}

    def is_complete(self, records: int) -> bool:
        """Whether ``records`` are copied, their offset and sync are stored, and the group has its checkpoint."""
        offsets = positions(read_topic(self.target.bootstrap, self.offsets))
        written = [one.upstream_offset for one, _ in syncs(read_topic(self.source.bootstrap, self.syncs))]
        return bool(
            count(read_topic(self.target.bootstrap, self.remote)) >= records
            and offsets.get(TopicPartition(self.topic, 0)) == records
            and records - 1 in written
            and (records, records) in self.checkpointed()
        )

    def checkpointed(self) -> list[tuple[int, int]]:
        records = read_topic(self.target.bootstrap, self.checkpoints).get(0, ())
        found = (Checkpoint.decode(one.content[0], one.content[1]) for one in records)
        return [(one.upstream_offset, one.downstream_offset) for one in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handovers:
    """What was found. ``by_java`` and ``by_both`` are the topics of both clusters before and after mm2 ran; ``anew``
    is the reason that mm2 shows without source.cluster.alias. ``notes`` is the number of copies of A->C, whose status
    is ``converted``."""

    properties: Mapping[str, str]
    named: Direction
    kept: Direction
    by_java: frozenset[str]
    clusters_in_offsets_of_java: tuple[set[str], set[str]]
    by_both: frozenset[str]
    clusters_in_offsets: tuple[set[str], set[str]]
    heartbeats: set[tuple[str, str]]
    reasons: list[str]
    anew: str
    converted: Mapping[str, Any]
    notes: int
    log: str


@pytest.fixture(scope="module")
def handovers() -> Iterator[Handovers]:
    with KafkaCluster("a") as a, KafkaCluster("b") as b, ExitStack() as ends:
        node = Node(_properties(a, b))
        ends.push(node)
        java = ends.enter_context(JavaMirrorMaker(node.file.read_text()))
        yield _run(a, b, node, java)


def _properties(a: KafkaCluster, b: KafkaCluster) -> dict[str, str]:
    return {
        "clusters": "A, B, C",
        "A.bootstrap.servers": a.bootstrap,
        "B.bootstrap.servers": b.bootstrap,
        "C.bootstrap.servers": a.bootstrap,
        "heartbeats.replication.enabled": "false",  # Java would copy them within the cluster of A and C in a loop
        "emit.heartbeats.enabled": "false",
        "A->B.enabled": "true",
        "A->B.emit.heartbeats.enabled": "true",
        "A->B.topics": "orders",
        ALIAS: "eu-site",
        "A->B.target.cluster.alias": "home",
        "A->B.header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",  # there are no headers
        "B->A.enabled": "true",
        "B->A.topics": "bills",
        "B->A.source.cluster.alias": "",
        "B->A.target.cluster.alias": "",
        "B->A.replication.policy.separator": "",
        "A->C.enabled": "true",
        "A->C.topics": "notes",
        CONVERTER: JSON,
        **{f"{alias}.offset.flush.interval.ms": "1000" for alias in "ABC"},
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        **ONE_COPY,
    }


def _run(a: KafkaCluster, b: KafkaCluster, node: Node, java: JavaMirrorMaker) -> Handovers:
    named = Direction(
        source=a,
        target=b,
        topic="orders",
        remote="eu-site.orders",
        offsets="mm2-offsets.A.internal",
        syncs="mm2-offset-syncs.home.internal",
        checkpoints="eu-site.checkpoints.internal",
    )
    kept = Direction(
        source=b,
        target=a,
        topic="bills",
        remote="bills",
        offsets="mm2-offsets.B.internal",
        syncs="mm2-offset-syncsinternal",
        checkpoints="checkpointsinternal",
    )
    a.create_topic("notes")
    for direction in (named, kept):
        direction.source.create_topic(direction.topic)
    write(a.bootstrap, "notes", plain(RECORDS))
    _copy(1, "Java", named, kept)
    notes = TopicPartition("notes", 0)
    wait_until(
        lambda: positions(read_topic(a.bootstrap, "mm2-offsets.A.internal")).get(notes) == RECORDS,
        SOON,
        f"Java has copied {RECORDS} notes",
    )
    by_java = _topics(a, b)
    names_of_java = named.clusters_in_offsets(), kept.clusters_in_offsets()
    java.stop()
    node.start().wait_answering()
    for flow in ("A->B", "B->A"):
        wait_until(lambda flow=flow: node.flow(flow).get("state") == "RUNNING", RUNS_WITHIN, f"mm2 runs {flow}")  # type: ignore[misc]
    _copy(2, "mm2", named, kept)
    by_both, reasons = _topics(a, b), [*node.flow("A->B")["reasons"], *node.flow("B->A")["reasons"]]
    names = named.clusters_in_offsets(), kept.clusters_in_offsets()
    properties = _properties(a, b)
    node.rewrite({key: value for key, value in properties.items() if key != ALIAS})
    anew = wait_until(
        lambda: next((one for one in node.flow("A->B").get("reasons", ()) if "source alias" in one), ""),
        SOON,
        "mm2 reports that offsets are stored under another alias",
    )
    node.rewrite(properties)
    wait_until(
        lambda: (flow := node.flow("A->B")) and not any("source alias" in one for one in flow["reasons"]),
        SOON,
        "the reason disappears with its cause",
    )
    wait_until(
        lambda: node.flow("A->C").get("state") == "FAILED",
        SOON,
        "the flow stops that would continue what Java converted",
    )
    converted = node.flow("A->C")
    assert node.stop() == 0
    java.start()
    _copy(3, "Java again", named, kept)
    java.stop()
    beats = read_topic(b.bootstrap, "heartbeats")[0]
    return Handovers(
        properties=properties,
        named=named,
        kept=kept,
        by_java=by_java,
        clusters_in_offsets_of_java=names_of_java,
        by_both=by_both,
        clusters_in_offsets=names,
        heartbeats={(one.source, one.target) for one in (Heartbeat.decode(*beat.content[:2]) for beat in beats)},
        reasons=reasons,
        anew=anew,
        converted=converted,
        notes=end_offset_sum(a.bootstrap, "A.notes"),
        log=node.process.output(),
    )


def _copy(phase: int, by: str, *directions: Direction) -> None:
    records = phase * RECORDS
    for direction in directions:
        write(direction.source.bootstrap, direction.topic, plain(RECORDS, first=records - RECORDS))
        commit(direction.source, GROUP, {(direction.topic, 0): records})
    for direction in directions:
        what = f"{by} has copied {records} records of {direction.topic}, and stored their offsets"
        wait_until(lambda one=direction: one.is_complete(records), SOON, what)  # type: ignore[misc]


def _topics(a: KafkaCluster, b: KafkaCluster) -> frozenset[str]:
    return frozenset(f"{one.name}: {topic}" for one in (a, b) for topic in one.admin.list_topics(timeout=10).topics)


@pytest.mark.parametrize("direction", ["named", "kept"])
def test_handover_to_mm2_and_back_loses_and_repeats_nothing(handovers: Handovers, direction: str) -> None:
    one: Direction = getattr(handovers, direction)
    verdict = compare(read_topic(one.source.bootstrap, one.topic), read_topic(one.target.bootstrap, one.remote))
    assert verdict.exact, str(verdict)
    assert verdict.records == 3 * RECORDS


def test_java_used_the_names_that_are_stored(handovers: Handovers) -> None:
    found = {
        "keys": {key: value for key, value in handovers.properties.items() if "alias" in key or "separator" in key},
        "topics": sorted(name for name in handovers.by_java if ": __" not in name),
        "clusters in source offsets": [sorted(names) for names in handovers.clusters_in_offsets_of_java],
    }
    agrees("aliases", found, write=bool(os.environ.get("MM2_WRITE_RECORDED")))


def test_mm2_uses_the_topics_of_java(handovers: Handovers) -> None:
    transactions = {"a: __transaction_state", "b: __transaction_state"}
    assert handovers.by_both - handovers.by_java - transactions == {
        f"{cluster}: mm2-{what}.{source}.internal"
        for cluster, source in (("a", "B"), ("b", "A"))
        for what in ("exact-offsets", "losses")
    }


def test_mm2_stores_offsets_and_heartbeats_under_the_aliases(handovers: Handovers) -> None:
    assert handovers.clusters_in_offsets == ({"eu-site"}, {""})
    assert {("eu-site", "home")} <= handovers.heartbeats <= {("eu-site", "home"), ("A", "home")}
    assert handovers.reasons == []


def test_another_alias_than_that_of_the_stored_offsets_is_reported(handovers: Handovers) -> None:
    assert handovers.anew in handovers.log
    assert handovers.anew.startswith(
        "source offsets, such as that of orders-0, are stored under the source alias eu-site,"
    )
    assert handovers.anew.endswith(f"write {ALIAS} = eu-site")


def test_mm2_does_not_continue_what_java_converted(handovers: Handovers) -> None:
    """The copies have the timestamps of the source, but other values."""
    (reason,) = handovers.converted["reasons"]
    assert reason.startswith(f"Java MirrorMaker wrote A.notes-0 with {CONVERTER} = {JSON}: the bytes of the value of")
    assert f"offset {RECORDS - 1} differ from those of notes-0" in reason
    assert handovers.notes == RECORDS


def test_mm2_continues_copies_that_a_converter_did_not_change(handovers: Handovers) -> None:
    """A->B has one of headers, and its records have none."""
    assert "eu-site.orders-0 with" not in handovers.log
    assert handovers.reasons == []
