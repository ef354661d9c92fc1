"""One scenario, run once and checked by many tests: mm2 and Java's MirrorMaker with the same file.

There are three clusters, and A is the source. Flow A->B is run by mm2, then by Java, then by mm2 again, while records
keep arriving. Flow A->C is run by Java alone, so that the results for the same source can be compared. This module only
records what happened; the tests check it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import HeartbeatKey, decode_key
from tests.lab.cluster import KafkaCluster
from tests.lab.groups import commit
from tests.lab.history import Partitions, count, end_offset_sum, read_topic
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.load import every_shape_load
from tests.lab.node import Node
from tests.lab.records import every_shape, plain, write, write_transactions
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import wait_until
from tests.parity.internal_records import positions, since, stored, syncs

OFFSETS, CONFIGS, STATUS = "mm2-offsets.A.internal", "mm2-configs.A.internal", "mm2-status.A.internal"
HEARTBEATS = "heartbeats"
CHECKPOINTS = "A.checkpoints.internal"
SYNCS_OF_B, SYNCS_OF_C = "mm2-offset-syncs.B.internal", "mm2-offset-syncs.C.internal"

# Topics that receive records all the time: partitions and codec.
BUSY = {"orders": (3, "lz4"), "payments": (1, "none"), "clicks": (2, "zstd")}

# Topics that are written before the scenario starts and receive no records afterwards.
STILL, LEDGER, CONFIGURED, COMPACTED = "still", "ledger", "configured", "compacted"
PRESET = "preset"  # its remote topics are created in advance, with different configs
TOPICS = (*BUSY, STILL, LEDGER, CONFIGURED, COMPACTED, PRESET)
STILL_RECORDS = 500  # several times offset.lag.max

CONFIGS_OF: Mapping[str, Mapping[str, str]] = {
    CONFIGURED: {
        "retention.ms": "123456789",
        "max.message.bytes": "2000000",
        "segment.bytes": "16777216",
        "compression.type": "producer",  # the default, but set
        "message.timestamp.type": "LogAppendTime",  # this and the next are excluded by default
        "min.insync.replicas": "1",
    },
    COMPACTED: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9", "delete.retention.ms": "3600000"},
    PRESET: {"retention.ms": "123456789", "segment.bytes": "1073741824"},
}
CONFIGS_BEFORE: Mapping[str, str] = {
    "retention.ms": "1000000000",  # the source has another value
    "flush.ms": "60000",  # the source has the default
    "min.insync.replicas": "1",  # excluded by default
}

READERS = "readers"  # a consumer group on A that has read all of STILL
READ_TO = (0, 1, 99, 100, 101, 250, 400, 499)  # offsets in STILL of groups that appear after everything is synced
LAG_MAX = 100  # offset.lag.max, its default
FLUSH_MS = 1_000  # offset.flush.interval.ms

SOON = 60.0  # seconds for records to arrive, with three brokers, Spark and a Java MirrorMaker on two cores
JAVA_PROBLEM = "InconsistentGroupProtocolException"
JAVA_REJECTED = "Uncaught exception in herder work thread, exiting"  # Java's log message when it cannot join the group


@dataclass(frozen=True, slots=True, kw_only=True)
class Internal:
    """The records of the internal topics of flow A->B at one point in time."""

    offsets: Partitions
    syncs: Partitions
    heartbeats: Partitions

    @classmethod
    def read(cls, a: KafkaCluster, b: KafkaCluster) -> Internal:
        return cls(
            offsets=read_topic(b.bootstrap, OFFSETS),
            syncs=read_topic(a.bootstrap, SYNCS_OF_B),
            heartbeats=read_topic(b.bootstrap, HEARTBEATS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Results. ``by_us`` was read when only mm2 had written into B, ``after_java`` just before Java stopped."""

    a: KafkaCluster
    b: KafkaCluster
    c: KafkaCluster
    source: Mapping[str, Partitions]
    into_b: Mapping[str, Partitions]
    into_c: Mapping[str, Partitions]
    by_us: Internal
    after_java: Internal
    topics_by_us: frozenset[str]
    checkpoints: Partitions
    checkpoints_on_c: Partitions
    java_rejected: str
    epoch_before: int
    flow_meanwhile: Mapping[str, Any]
    flow_while_java_held: Mapping[str, Any]
    health_while_java_held: Mapping[str, Any]
    log_while_java_held: str
    exit_codes: tuple[int, ...]


def properties(a: KafkaCluster, b: KafkaCluster, c: KafkaCluster) -> dict[str, str]:
    """Return the properties that both programs use."""
    return {
        "clusters": "A, B, C",
        "A.bootstrap.servers": a.bootstrap,
        "B.bootstrap.servers": b.bootstrap,
        "C.bootstrap.servers": c.bootstrap,
        "A->B.enabled": "true",
        "A->C.enabled": "true",
        **{f"{flow}.emit.heartbeats.enabled": "false" for flow in ("B->A", "C->A", "B->C", "C->B")},
        "topics": ", ".join(TOPICS),
        "tasks.max": "2",
        "offset.lag.max": str(LAG_MAX),
        "B.offset.flush.interval.ms": str(FLUSH_MS),
        "C.offset.flush.interval.ms": str(FLUSH_MS),
        "refresh.topics.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        **ONE_COPY,
    }


@contextmanager
def run_scenario(rng: random.Random) -> Iterator[Scenario]:
    """Run the scenario. Raises GaveUp with the expectation that was not met."""
    with KafkaCluster("a") as a, KafkaCluster("b") as b, KafkaCluster("c") as c:
        _write_history(a, rng)
        for target in (b, c):
            target.create_topic(f"A.{PRESET}", config=CONFIGS_BEFORE)
        with Node(properties(a, b, c), arguments=("--clusters", "B")) as node:
            yield _Runner(a=a, b=b, c=c, node=node, rng=rng).run()


def _write_history(a: KafkaCluster, rng: random.Random) -> None:
    for topic, (partitions, _) in BUSY.items():
        a.create_topic(topic, partitions)
    for topic in (STILL, LEDGER, CONFIGURED, COMPACTED, PRESET):
        a.create_topic(topic, 2 if topic == COMPACTED else 1, config=CONFIGS_OF.get(topic))
    for topic, (partitions, codec) in BUSY.items():
        write(a.bootstrap, topic, every_shape(rng, 300, partitions=partitions), codec=codec)
    write(a.bootstrap, STILL, plain(STILL_RECORDS), codec="gzip", records_per_batch=50)
    write(a.bootstrap, CONFIGURED, plain(10))
    write(a.bootstrap, PRESET, plain(10))
    write(a.bootstrap, COMPACTED, plain(50, partitions=2))
    transactions = [(list(plain(5, first=5 * number)), number % 3 != 1) for number in range(6)]
    write_transactions(a.bootstrap, LEDGER, transactions, transactional_id="ledger")
    commit(a, READERS, {(STILL, 0): STILL_RECORDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runner:
    a: KafkaCluster
    b: KafkaCluster
    c: KafkaCluster
    node: Node
    rng: random.Random

    def run(self) -> Scenario:
        node, file = self.node, self.node.file.read_text()
        node.wait_running()
        self._wait_complete(self.b)
        epoch = node.flow("A->B")["epoch"]
        rejected, meanwhile = self._java_is_rejected(file)
        with every_shape_load(self.a, BUSY, self.rng):
            self._wait_growth(self.b, "mm2 copies under load")
            first_exit = node.stop()
            by_us, topics_by_us = Internal.read(self.a, self.b), frozenset(self.b.admin.list_topics(timeout=10).topics)
            with JavaMirrorMaker(file) as java:
                self._wait_growth(self.b, "Java resumes under load where mm2 stopped")
                node.start().wait_answering()
                flow, health = self._while_java_holds()
                log = node.process.output()
                self._wait_complete(self.c, quiet_only=True)
                self._wait_java_stored(by_us)
                self._add_groups()
                after_java = Internal.read(self.a, self.b)
                java.stop()
                node.wait_running()
                self._wait_growth(self.b, "mm2 resumes under load where Java stopped")
        self._wait_complete(self.b)
        source, into_b = self._read(self.a, ""), self._read(self.b, "A.")
        return Scenario(
            a=self.a,
            b=self.b,
            c=self.c,
            source=source,
            into_b=into_b,
            into_c=self._read(self.c, "A."),
            by_us=by_us,
            after_java=after_java,
            topics_by_us=topics_by_us,
            checkpoints=read_topic(self.b.bootstrap, CHECKPOINTS),
            checkpoints_on_c=read_topic(self.c.bootstrap, CHECKPOINTS),
            java_rejected=rejected,
            epoch_before=epoch,
            flow_meanwhile=meanwhile,
            flow_while_java_held=flow,
            health_while_java_held=health,
            log_while_java_held=log,
            exit_codes=(first_exit, node.stop()),
        )

    def _java_is_rejected(self, file: str) -> tuple[str, dict[str, Any]]:
        """Return Java's log of its attempt to join the group that mm2 holds, and mm2's flow after that."""
        with JavaMirrorMaker(file, clusters=("B",), name="java-rejected") as java:
            for text in (JAVA_REJECTED, JAVA_PROBLEM):  # the second is in the stack trace of the first
                java.process.wait_until_output(text, SOON, "Java is rejected by the group that mm2 holds")
            rejected = java.process.output()

            def without_reasons() -> dict[str, Any]:
                flow = self.node.flow("A->B")
                return {} if flow.get("reasons") else flow

            return rejected, wait_until(without_reasons, SOON, "the flow reports no problem")

    def _while_java_holds(self) -> tuple[dict[str, Any], dict[str, Any]]:
        def waiting() -> dict[str, Any]:
            flow = self.node.flow("A->B")
            return flow if any("Java" in reason for reason in flow.get("reasons", ())) else {}

        return wait_until(waiting, SOON, "the node reports that Java holds the group"), self.node.health()

    def _wait_complete(self, target: KafkaCluster, *, quiet_only: bool = False) -> None:
        """Wait until ``target`` has at least as many records as A, of all topics or of the quiet ones."""
        for topic in TOPICS:
            if quiet_only and topic in BUSY:
                continue
            wanted = count(read_topic(self.a.bootstrap, topic, isolation="read_uncommitted"))
            wait_until(
                lambda topic=topic, wanted=wanted: end_offset_sum(target.bootstrap, f"A.{topic}") >= wanted,  # type: ignore[misc]
                SOON,
                f"A.{topic} on {target.name} has the {wanted} records of {topic}",
            )

    def _wait_growth(self, target: KafkaCluster, what: str) -> None:
        """Wait until every busy topic has more records than now."""
        before = {topic: end_offset_sum(target.bootstrap, f"A.{topic}") for topic in BUSY}
        for topic, had in before.items():
            wait_until(
                lambda topic=topic, had=had: end_offset_sum(target.bootstrap, f"A.{topic}") > had,  # type: ignore[misc]
                SOON,
                f"{what}: {topic}",
            )

    def _wait_java_stored(self, before: Internal) -> None:
        """Wait until Java has written each kind of internal record for B and translated the group's offset.

        It stores the offsets of its tasks, and writes their offset syncs, at different times, so wait for those of
        every busy partition.
        """
        busy = {
            TopicPartition(topic, number) for topic, (partitions, _) in BUSY.items() for number in range(partitions)
        }
        had = positions(before.offsets)

        def written() -> bool:
            now = Internal.read(self.a, self.b)
            offsets, own_syncs = since(now.offsets, before.offsets), syncs(since(now.syncs, before.syncs))
            stored_by_java = positions(offsets)
            return (
                all(stored_by_java.get(one, 0) > had[one] for one in busy)
                and any(isinstance(decode_key(one.key), HeartbeatKey) for one in stored(offsets))
                and {sync.topic_partition for sync, _ in own_syncs} >= busy
                and count(since(now.heartbeats, before.heartbeats)) > 0
                and end_offset_sum(self.b.bootstrap, CHECKPOINTS) > 0
            )

        wait_until(written, SOON, "Java writes every kind of internal record for B")

    def _add_groups(self) -> None:
        """Create more groups on A and wait for Java's checkpoints of them on C.

        Checkpoints depend on the offset syncs known at that time, so wait for Java's last sync of STILL first.
        """

        def synced() -> bool:
            found = syncs(read_topic(self.a.bootstrap, SYNCS_OF_C))
            return any(
                (one.topic_partition.topic, one.upstream_offset) == (STILL, STILL_RECORDS - 1) for one, _ in found
            )

        def groups() -> int:
            return len({one.content[0] for one in read_topic(self.c.bootstrap, CHECKPOINTS).get(0, ())})

        wait_until(synced, SOON, f"Java syncs the last record of {STILL} for C")
        for offset in READ_TO:
            commit(self.a, f"{READERS}-{offset}", {(STILL, 0): offset}, metadata=f"read to {offset}")
        wait_until(lambda: groups() > len(READ_TO), SOON, f"Java writes checkpoints of {len(READ_TO)} more groups on C")

    def _read(self, cluster: KafkaCluster, prefix: str) -> dict[str, Partitions]:
        return {topic: read_topic(cluster.bootstrap, prefix + topic, isolation="read_uncommitted") for topic in TOPICS}
