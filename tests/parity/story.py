"""One story, told once and judged by many tests: this program and Java's MirrorMaker on one file.

There are three clusters. A is the source. Into B the flow A->B copies, first by us, then by Java, then by us again,
while records keep coming. Into C the flow A->C copies, by Java alone, so that what each makes of the same source can be
laid side by side. What was seen is written down here; nothing is judged.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.lab.cluster import KafkaCluster
from tests.lab.groups import commit
from tests.lab.history import Partitions, count, end_offset_sum, read_topic
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.node import Node
from tests.lab.records import every_shape, plain, write, write_transactions
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import wait_until
from tests.parity.internal_records import syncs
from tests.parity.load import Load

OFFSETS, CONFIGS, STATUS = "mm2-offsets.A.internal", "mm2-configs.A.internal", "mm2-status.A.internal"
HEARTBEATS = "heartbeats"
CHECKPOINTS = "A.checkpoints.internal"
SYNCS_OF_B, SYNCS_OF_C = "mm2-offset-syncs.B.internal", "mm2-offset-syncs.C.internal"

# Topics that get records all the time: partitions and codec.
BUSY = {"orders": (3, "lz4"), "payments": (1, "none"), "clicks": (2, "zstd")}

# Topics that are written before the story begins and are quiet afterwards.
STILL, LEDGER, CONFIGURED, COMPACTED = "still", "ledger", "configured", "compacted"
PRESET = "preset"  # somebody made its remote topics before us and Java, with configs that are not its own
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
READ_TO = (0, 1, 99, 100, 101, 250, 400, 499)  # of STILL: how far groups came that turn up when all is synced
LAG_MAX = 100  # offset.lag.max, its default
FLUSH_MS = 1_000  # offset.flush.interval.ms

SOON = 60.0  # seconds for records to arrive, with two Kafkas, Spark and a Java MirrorMaker on two cores
JAVA_REFUSED = "Uncaught exception in herder work thread, exiting"  # Java's words when it cannot be in the group


@dataclass(frozen=True, slots=True, kw_only=True)
class Internal:
    """The records of the internal topics of flow A->B at one moment."""

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
class Story:
    """What was seen. ``by_us`` was read when nobody but us had written into B, ``after_java`` just before Java left."""

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
    java_refused: str
    epoch_before: int
    flow_meanwhile: Mapping[str, Any]
    flow_while_java_held: Mapping[str, Any]
    health_while_java_held: Mapping[str, Any]
    log_while_java_held: str
    exit_codes: tuple[int, ...]


def properties(a: KafkaCluster, b: KafkaCluster, c: KafkaCluster) -> dict[str, str]:
    """The one file that both programs run on."""
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
def told(rng: random.Random) -> Iterator[Story]:
    """Play it. Raises GaveUp with what did not happen."""
    with KafkaCluster("a") as a, KafkaCluster("b") as b, KafkaCluster("c") as c:
        _write_history(a, rng)
        for target in (b, c):
            target.create_topic(f"A.{PRESET}", config=CONFIGS_BEFORE)
        with Node(properties(a, b, c), arguments=("--clusters", "B")) as node:
            yield _Players(a=a, b=b, c=c, node=node, rng=rng).play()


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
class _Players:
    a: KafkaCluster
    b: KafkaCluster
    c: KafkaCluster
    node: Node
    rng: random.Random

    def play(self) -> Story:
        node, file = self.node, self.node.file.read_text()
        node.wait_running()
        self._wait_complete(self.b)
        epoch = node.flow("A->B")["epoch"]
        refused, meanwhile = self._java_is_refused(file)
        with Load(self.a, BUSY, self.rng):
            self._wait_growth(self.b, "we copy under load")
            first_exit = node.stop()
            by_us, topics_by_us = Internal.read(self.a, self.b), frozenset(self.b.admin.list_topics(timeout=10).topics)
            with JavaMirrorMaker(file) as java:
                self._wait_growth(self.b, "Java goes on under load where we stopped")
                node.start().wait_answering()
                flow, health = self._while_java_holds()
                log = node.process.output()
                self._wait_complete(self.c, quiet_only=True)
                self._wait_java_stored(by_us)
                self._groups_turn_up()
                after_java = Internal.read(self.a, self.b)
                java.stop()
                node.wait_running()
                self._wait_growth(self.b, "we go on under load where Java stopped")
        self._wait_complete(self.b)
        source, into_b = self._read(self.a, ""), self._read(self.b, "A.")
        return Story(
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
            java_refused=refused,
            epoch_before=epoch,
            flow_meanwhile=meanwhile,
            flow_while_java_held=flow,
            health_while_java_held=health,
            log_while_java_held=log,
            exit_codes=(first_exit, node.stop()),
        )

    def _java_is_refused(self, file: str) -> tuple[str, dict[str, Any]]:
        """Java's log when it tries to join the group that we hold, and our flow after that."""
        with JavaMirrorMaker(file, clusters=("B",), name="java-refused") as java:
            java.process.wait_until_output(JAVA_REFUSED, SOON, "Java is refused by the group we hold")
            refused = java.process.output()

            def untroubled() -> dict[str, Any]:
                flow = self.node.flow("A->B")
                return {} if flow.get("reasons") else flow

            return refused, wait_until(untroubled, SOON, "our flow has nothing to complain of")

    def _while_java_holds(self) -> tuple[dict[str, Any], dict[str, Any]]:
        def waiting() -> dict[str, Any]:
            flow = self.node.flow("A->B")
            return flow if any("Java" in reason for reason in flow.get("reasons", ())) else {}

        return wait_until(waiting, SOON, "our node names Java as who holds the group"), self.node.health()

    def _wait_complete(self, target: KafkaCluster, *, quiet_only: bool = False) -> None:
        """Until ``target`` has at least as many records as A, of all topics or of the quiet ones."""
        for topic in TOPICS:
            if quiet_only and topic in BUSY:
                continue
            wanted = count(read_topic(self.a.bootstrap, topic, isolation="read_uncommitted"))
            wait_until(
                lambda topic=topic, wanted=wanted: end_offset_sum(target.bootstrap, f"A.{topic}") >= wanted,  # type: ignore[misc]
                SOON,
                f"A.{topic} on {target.name} has the {wanted} records of {topic}",
            )

    def _wait_growth(self, target: KafkaCluster, sentence: str) -> None:
        """Until every busy topic has more records than now."""
        before = {topic: end_offset_sum(target.bootstrap, f"A.{topic}") for topic in BUSY}
        for topic, had in before.items():
            wait_until(
                lambda topic=topic, had=had: end_offset_sum(target.bootstrap, f"A.{topic}") > had,  # type: ignore[misc]
                SOON,
                f"{sentence}: {topic}",
            )

    def _wait_java_stored(self, before: Internal) -> None:
        """Until Java has written each kind of internal record into or about B, and translated the group's offset."""
        topics = {
            OFFSETS: (self.b, count(before.offsets)),
            SYNCS_OF_B: (self.a, count(before.syncs)),
            HEARTBEATS: (self.b, count(before.heartbeats)),
            CHECKPOINTS: (self.b, 0),
        }
        for topic, (cluster, had) in topics.items():
            wait_until(
                lambda topic=topic, cluster=cluster, had=had: end_offset_sum(cluster.bootstrap, topic) > had,  # type: ignore[misc]
                SOON,
                f"Java writes {topic} on {cluster.name}",
            )

    def _groups_turn_up(self) -> None:
        """More groups on A, and Java's checkpoints of them on C. What a group gets depends on the syncs at that moment,
        so Java's last one of STILL has to be there first."""

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
