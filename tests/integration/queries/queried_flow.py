"""A flow with a query for each kind of change, on one node: each query selects topics by the stem of their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import Record, read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing, write
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

SEEN = 120.0  # seconds until a SQL lane has started and records are copied, or a change is shown, on busy cores

QUERIES = {
    "orders": (
        r"SELECT regexp_replace(CAST(Value AS STRING), r'\d{4}-\d{4}-\d{4}', '****') AS VALUE FROM Records"
        r" WHERE coalesce(get_json_object(CAST(VALUE AS STRING), '$.test'), '') <> 'true'"
    ),
    "same": "SELECT * FROM records",
    "parts": (
        "SELECT sha2(key, 256) AS key, timestamp + INTERVAL 1 HOUR AS timestamp,"
        " array_append(headers, named_struct('key', 'from', 'value',"
        " CAST(concat(topic, '-', partition, '@', offset) AS BINARY))) AS headers"
        " FROM records"
    ),
    "rare": "SELECT * FROM records WHERE CAST(CAST(value AS STRING) AS BIGINT) % 100 = 7",
    "never": "SELECT * FROM records WHERE false",
    # a quarter of a millisecond for each record
    "slow": "SELECT * FROM records WHERE sha2(repeat(CAST(value AS STRING), 100), 512) = '0'",
    "live": "SELECT * FROM records WHERE value IS NOT NULL",
    "deleted": "SELECT CAST(NULL AS BINARY) AS value FROM records",
    # java.util.regex recurses for each letter: a long value overflows the stack, which ends the lane
    "deep": "SELECT regexp_replace(CAST(value AS STRING), '^(a|b)*$', 'ok') AS value FROM records",
    # takes as many bytes of memory as the value says
    "large": "SELECT CAST(length(repeat('x', CAST(CAST(value AS STRING) AS INT))) AS STRING) AS value FROM records",
    "numbers": "SELECT CAST(CAST(CAST(value AS STRING) AS INT) * 2 AS STRING) AS value FROM records",
}
"""Query by the stem of its topics' names. That of ``orders`` has names in other cases than the columns."""

TRANSFORM = "tests.integration.queries.own_columns:shout"
"""The transform of topics with the stem ``own``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedFlow:
    """A flow whose queries are `QUERIES`."""

    source: KafkaCluster
    target: KafkaCluster
    a: str
    b: str

    @classmethod
    def plan(cls, source: KafkaCluster, target: KafkaCluster) -> QueriedFlow:
        """Return a flow with new aliases."""
        return cls(source=source, target=target, a=unique_name("A"), b=unique_name("B"))

    @property
    def name(self) -> str:
        return f"{self.a}->{self.b}"

    def properties(self, *stems: str, **more: str) -> dict[str, str]:
        """Return mm2.properties with the queries of these stems, by default all."""
        queries = {
            f"{self.name}.mm2.sql.own.topics": f"{self.a}-own.*",
            f"{self.name}.mm2.sql.own.transform": TRANSFORM,
        }
        if stems:
            queries.clear()
        for stem in stems or QUERIES:
            queries[f"{self.name}.mm2.sql.{stem}.topics"] = f"{self.a}-{stem}.*"
            queries[f"{self.name}.mm2.sql.{stem}.query"] = QUERIES[stem]
        return (
            one_flow(self.source, self.target, aliases=(self.a, self.b), topics=f"{self.a}-.*")
            | {
                "groups": f"{self.a}-.*",
                "tasks.max": "2",
                "mm2.lanes": "1",
                "mm2.rest.admin": "true",
                "mm2.rest.admin.token": "t" * 32,
                "emit.heartbeats.enabled": "false",
                "heartbeats.replication.enabled": "false",
                "emit.checkpoints.interval.seconds": "1",
                "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": "1",
                "refresh.groups.interval.seconds": "1",
                f"{self.b}.offset.flush.interval.ms": "1000",
                # without its optimizing compiler the JVM starts with half the CPU
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            }
            | queries
            | more
        )

    def create(self, stem: str, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> str:
        """Create a new source topic for the query of this stem."""
        return self.source.create_topic(unique_name(f"{self.a}-{stem}"), partitions, config=config)

    def remote(self, topic: str) -> str:
        return f"{self.a}.{topic}"

    def write(self, topic: str, records: Iterable[Outgoing], **options: Any) -> None:
        write(self.source.bootstrap, topic, records, **options)

    def written(self, topic: str) -> dict[int, Sequence[Record]]:
        """Return the records of a source topic by partition."""
        return dict(read_topic(self.source.bootstrap, topic))

    def copied(self, topic: str) -> dict[int, Sequence[Record]]:
        """Return the records of the remote topic by partition."""
        return dict(read_topic(self.target.bootstrap, self.remote(topic)))

    def wait_passed(self, node: Node, topic: str, *, timeout: float = SEEN) -> list[dict[str, Any]]:
        """Wait until every record of the topic is copied or dropped, and return its partitions in /flows."""
        ends = {partition: len(records) for partition, records in self.written(topic).items()}

        def done() -> list[dict[str, Any]] | None:
            shown: list[dict[str, Any]] = node.topic(self.name, topic).get("partitions", [])
            positions = {one["partition"]: one["position"] for one in shown}
            return shown if positions == ends and not any(one["lag_records"] for one in shown) else None

        found = wait_until(done, timeout, f"all of {topic} has passed through")
        assert found is not None
        return found
