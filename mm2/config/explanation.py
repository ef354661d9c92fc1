"""Explanation of effective settings: every value with the line it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mm2.config.checks.key_rules import Weight
from mm2.config.clients.client_keys import (
    MERGED_BYTES,
    ClientKeys,
    ConsumerKeys,
    ProducerKeys,
)
from mm2.config.effective import CLIENTS, node_models, of_model
from mm2.config.flows import FlowProperties, storage_configs
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import declaration
from mm2.config.keys.connector_keys import CONNECTORS
from mm2.config.keys.declaration import KeyModel
from mm2.config.keys.node_keys import OwnFlowSettings
from mm2.config.keys.sql_keys import LETTERS, PREFIX, of_name
from mm2.config.keys.worker_keys import WorkerSettings
from mm2.config.keys.zookeeper_keys import PREFIX as ZOOKEEPER
from mm2.config.load import File
from mm2.config.security import security_keys
from mm2.config.settings import FlowSettings
from mm2.core.naming.names import Flow
from mm2.core.settings.client import ProduceSettings
from mm2.core.settings.row_query import LetterContent, RowQuery

DEFAULT = "default"
BY_RULE = "from the name of the flow"
"""Origin of the names that Java derives: group, storage topics, client.id."""
QUERIES = "queries (the first whose topics match applies)"
DIGITS = 16
"""Length of a shown digest of a query."""
FOLLOWS = "follows from other settings"

_SHORT: Mapping[str, tuple[str, type[ClientKeys]]] = {
    "source_producer": ("source producer (offset syncs on the source)", ProducerKeys),
    "source_admin": ("source admin", CLIENTS["source_admin"]),
    "target_consumer": ("target consumer", ConsumerKeys),
    "target_producer": ("target producer (offset syncs on the target)", ProducerKeys),
    "target_admin": ("target admin", CLIENTS["target_admin"]),
    "worker": ("group and storage topics", CLIENTS["worker"]),
}
"""Clients whose defaults are not shown."""


@dataclass(frozen=True, slots=True)
class ExplainedLine:
    """One effective setting; ``value`` is safe to print, ``origin`` is the line it comes from."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Section:
    """A titled group of settings."""

    title: str
    lines: tuple[ExplainedLine, ...]


def explain_node(file: File) -> tuple[Section, ...]:
    """Explain the settings of the node itself."""
    spark = [_line(name, value) for name, value in file.properties.items() if name.startswith("spark.")]
    lines = (line for model in node_models() for line in _all(model, file.properties))
    return (Section("node", (*(line for line in lines if not _is_unused_tls(line)), *spark)),)


def _is_unused_tls(line: ExplainedLine) -> bool:
    return line.origin == DEFAULT and line.key.startswith(f"{ZOOKEEPER}ssl.")


def explain_flow(file: File, settings: FlowSettings) -> tuple[Section, ...]:
    """Explain the settings of one flow: its connectors, worker and clients."""
    properties = FlowProperties.of(file.properties, settings.flow)
    connectors = dict.fromkeys(line for model in CONNECTORS for line in _all(model, properties.connector))
    producer = [_effective(line, settings) for line in _client(ProducerKeys, properties.clients["record_producer"])]
    storage = [_line(name, value) for name, value in storage_configs(properties.worker).items()]
    return (
        Section("connectors", (*connectors, *_all(OwnFlowSettings, properties.own))),
        Section(QUERIES, tuple(_queries(properties.sql, settings))),
        Section(
            "worker",
            (*_all(WorkerSettings, properties.worker), *storage),
        ),
        *_folded(
            settings.flow,
            {
                "source consumer": tuple(_client(ConsumerKeys, properties.clients["source_consumer"])),
                "record producer": tuple(producer),
                **{
                    title: tuple(line for line in _client(model, properties.clients[field]) if line.origin != DEFAULT)
                    for field, (title, model) in _SHORT.items()
                },
            },
        ),
    )


def _queries(keys: Properties, settings: FlowSettings) -> Iterator[ExplainedLine]:
    """Return the lines of each name, in the order in which they are matched, and what the query does."""
    for query in settings.queries.in_order:
        of_this = of_name(keys, query.name)
        yield from (_line(f"{PREFIX}{query.name}.{kind}", value) for kind, value in of_this.items())
        if LETTERS not in of_this:
            content = LetterContent.WITHOUT_VALUES if query.hides_values else LetterContent.FULL
            yield ExplainedLine(f"{PREFIX}{query.name}.{LETTERS}", content, DEFAULT)
        if isinstance(query.action, RowQuery):
            yield ExplainedLine(query.name, str(query.action), f"sha256 {query.action.sha256[:DIGITS]}")


def _folded(flow: Flow, clients: Mapping[str, tuple[ExplainedLine, ...]]) -> Iterator[Section]:
    """Return the sections of ``clients``; lines of the file that all clients of a cluster share are shown once."""
    for alias, side in ((flow.source, "source"), (flow.target, "target")):
        of_side = {title: lines for title, lines in clients.items() if title.startswith("source") is (side == "source")}
        first = next(iter(of_side.values()))
        common = set(first).intersection(*of_side.values())
        shared = tuple(line for line in first if line in common and line.origin != DEFAULT)
        yield Section(f"all {side} clients ({alias})", shared)
        for title, lines in of_side.items():
            yield Section(title, tuple(line for line in lines if line not in shared))


def explain_rest(file: File) -> Section:
    """Explain the other lines of the file: those without effect, and those passed to custom classes."""
    notes = (finding for finding in file.findings if finding.weight is Weight.NOTE)
    return Section(
        "other lines",
        tuple(
            ExplainedLine(note.entry.key, note.entry.shown, f"line {note.entry.line}: {note.rule}") for note in notes
        ),
    )


def _all(model: type[KeyModel], properties: Properties) -> Iterator[ExplainedLine]:
    for _, name in (settings := of_model("", model, properties)):
        if (value := properties.get(name)) is not None:
            yield _line(name, value)
        else:
            yield ExplainedLine(name, settings["", name].text or "", DEFAULT)


def _client(model: type[ClientKeys], properties: Properties) -> Iterator[ExplainedLine]:
    security = [line for model in security_keys.MODELS for line in _all(model, properties) if line.origin != DEFAULT]
    yield from _all(model, properties)
    yield from security or (
        line for line in _all(security_keys.SecurityKeys, properties) if line.key == "security.protocol"
    )


def _line(name: str, value: Value) -> ExplainedLine:
    if value.entry is None:  # connectors get enabled = false, which is no default of Java's ConfigDef
        return ExplainedLine(name, value.text, DEFAULT if name == "enabled" else BY_RULE)
    where = f"line {value.entry.line}"
    return ExplainedLine(
        name, value.shown(name).strip(), where if value.entry.key == name else f"{where}: {value.entry.key}"
    )


def _effective(line: ExplainedLine, settings: FlowSettings) -> ExplainedLine:
    """Return ``line`` with the value that is used, which also depends on other settings."""
    produce = settings.clients.produce
    effective = {
        "batch.size": str(merged_bytes(produce)),
        "enable.idempotence": declaration.as_text(produce.idempotent),
        "max.in.flight.requests.per.connection": declaration.as_text(produce.max_in_flight),
    }.get(line.key)
    if effective in (None, line.value.lower()):
        return line
    if line.key == "batch.size":
        origin = line.origin if line.origin == DEFAULT else f"{line.origin} = {line.value} is outside the limits"
        return ExplainedLine(line.key, str(effective), origin)
    return ExplainedLine(line.key, str(effective), FOLLOWS)


def merged_bytes(produce: ProduceSettings) -> int:
    """Return the size up to which small batches are merged (flows/batch/choice.py)."""
    return min(max(MERGED_BYTES, produce.batch_size), produce.max_request_size)
