"""Cost and latency of a query that drops test orders and masks card numbers, beside Java's transformations.

MirrorMaker's values are bytes to Java's transformations, of which none can read JSON. Those that come closest: `Filter`
drops the records with a header, and `Cast` to string, the cheapest one that rewrites such values, encodes them in
base64. So Java does less for each record than the query, which parses JSON and evaluates a regular expression.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from confluent_kafka import Message

from tests.bench.copying import copy_backlog, read_source
from tests.bench.digests import framed_with
from tests.bench.end_offsets import EndOffsets
from tests.bench.latency import measure_latency
from tests.bench.orders import CARD, MASK, TEST, orders
from tests.bench.results import Copy, Latency, Transformed
from tests.bench.screen import Screen
from tests.bench.tools import JAVA, OURS, Tool
from tests.bench.workloads import WORKLOADS, write_backlog
from tests.lab.cluster import KafkaCluster

NAME = "sql"
TITLE = "JSON of 1 kB, test orders dropped, card numbers masked"
LARGE = next(one for one in WORKLOADS if one.name == "large")
WORKLOAD = replace(LARGE, name=NAME, title=TITLE, backlog=replace(LARGE.backlog, payload=orders))
RATE_AIM = 60_000  # records of the source per second, on two cores
CPU_AIM = 1.0  # upper limit of mm2's CPU time as a share of Java's
P50_AIM_MS = 10
P99_AIM = 0.5  # upper limit of mm2's p99 as a share of Java's

QUERY = (
    f"""SELECT regexp_replace(CAST(value AS STRING), r'"card":"{CARD.pattern.decode()}', '"card":"{MASK.decode()}')"""
    r" AS value FROM records WHERE get_json_object(CAST(value AS STRING), '$.test') <> 'true'"
)

NoteFailure = Callable[[str, Tool], AbstractContextManager[None]]


def masked(message: Message) -> bytes | None:
    """Return what the query makes of an order."""
    value = _value(message)
    return None if value is None else framed_with(message, CARD.sub(MASK, value))


def encoded(message: Message) -> bytes | None:
    """Return what Java's transformations make of an order."""
    value = _value(message)
    return None if value is None else framed_with(message, base64.b64encode(value))


def _value(message: Message) -> bytes | None:
    """Return the value of an order; None for a test order."""
    value, headers = message.value(), message.headers() or []
    assert isinstance(value, bytes)
    assert isinstance(headers, list)
    return None if any(name == TEST for name, _ in headers) else value


# The transformations of a Java flow apply to its checkpoints as well, and would make them unreadable.
_NO_CHECKPOINTS = {"emit.checkpoints.enabled": "false"}
_TRANSFORMS = "org.apache.kafka.connect.transforms"

OURS_SQL = replace(
    OURS,
    name="ours-sql",
    title="mm2, SQL flow",
    flow=_NO_CHECKPOINTS | {"mm2.sql.orders.topics": ".*", "mm2.sql.orders.query": QUERY},
    expected=masked,
)
JAVA_SQL = replace(
    JAVA,
    name="java-sql",
    title=f"{JAVA.title}, Filter and Cast",
    flow=_NO_CHECKPOINTS
    | {
        "predicates": "test",
        "predicates.test.type": f"{_TRANSFORMS}.predicates.HasHeaderKey",
        "predicates.test.name": TEST,
        "transforms": "drop, encode",
        "transforms.drop.type": f"{_TRANSFORMS}.Filter",
        "transforms.drop.predicate": "test",
        "transforms.encode.type": f"{_TRANSFORMS}.Cast$Value",
        "transforms.encode.spec": "string",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    },
    expected=encoded,
)
TOOLS = (JAVA_SQL, OURS_SQL)


def measure(
    source: KafkaCluster, target: KafkaCluster, scale: float, screen: Screen, note_failure: NoteFailure
) -> Transformed:
    """Copy the backlog with each tool, then measure the latency of each. A tool that fails is left out."""
    backlog = WORKLOAD.backlog.scaled(scale)
    with screen.phase(f"{NAME}: writing the backlog", backlog.records) as report_progress:
        write_backlog(source, NAME, backlog, report_progress)
    written = EndOffsets(source, NAME).refresh()
    copies: list[Copy] = []
    latencies: list[Latency] = []
    for tool in TOOLS:
        wanted = read_source(source, NAME, f"{NAME}: reading the backlog", screen, tool.expected)
        dropped = written - sum(one.records for one in wanted.values())
        with note_failure(NAME, tool):
            copies.append(copy_backlog(tool, WORKLOAD, source, target, wanted, screen, dropped=dropped))
    for tool in TOOLS:
        with note_failure(NAME, tool):
            latencies.append(measure_latency(tool, source, target, scale, screen, payload=orders))
    return Transformed(source_records=written, copies=tuple(copies), latencies=tuple(latencies))
