"""Why a setting is what it is: every effective value with the line it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mm2.config import keys
from mm2.config.client_keys import AdminKeys, ClientKeys, ConsumerKeys, ProducerKeys, WorkerClientKeys
from mm2.config.connectors import CONNECTORS
from mm2.config.electing import ElectionSettings
from mm2.config.flows import STORAGE_WORDS, FlowProperties
from mm2.config.keys import KeyModel
from mm2.config.known import Weight
from mm2.config.load import File
from mm2.config.node_keys import FileSettings, OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.security_keys import SecurityKeys
from mm2.config.settings import FlowSettings
from mm2.config.values import Properties, Value
from mm2.config.worker import WorkerSettings

DEFAULT = "default"
BY_RULE = "from the name of the flow"
FOLLOWS = "follows from the other lines"

_STORAGE = ("offset.storage.", "status.storage.", "config.storage.")

_SHORT: Mapping[str, tuple[str, type[ClientKeys]]] = {
    "source_producer": ("source producer, writes offset syncs there", ProducerKeys),
    "source_admin": ("source admin", AdminKeys),
    "target_consumer": ("target consumer", ConsumerKeys),
    "target_producer": ("target producer, writes offset syncs there", ProducerKeys),
    "target_admin": ("target admin", AdminKeys),
    "worker": ("group and storage topics", WorkerClientKeys),
}
"""Clients of which only what the file says is worth a line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One effective setting; ``value`` may be printed, ``origin`` says where it comes from."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Section:
    """Settings that belong together."""

    title: str
    lines: tuple[Line, ...]


def explain_node(file: File) -> tuple[Section, ...]:
    """What concerns the node as a whole."""
    spark = [_line(name, value) for name, value in file.properties.items() if name.startswith("spark.")]
    own = (FileSettings, RestSettings, ElectionSettings, OwnSettings)
    return (Section("node", (*(line for model in own for line in _all(model, file.properties)), *spark)),)


def explain_flow(file: File, settings: FlowSettings) -> tuple[Section, ...]:
    """What concerns one flow: its connectors, its worker, and every client."""
    properties = FlowProperties.of(file.properties, settings.flow)
    connectors = dict.fromkeys(line for model in CONNECTORS for line in _all(model, properties.connector))
    producer = [_effective(line, settings) for line in _client(ProducerKeys, properties.clients["record_producer"])]
    return (
        Section("connectors", (*connectors, *_all(OwnFlowSettings, properties.own))),
        Section("worker", (*_all(WorkerSettings, properties.worker), *_storage(properties.worker))),
        Section("source consumer", tuple(_client(ConsumerKeys, properties.clients["source_consumer"]))),
        Section("record producer", tuple(producer)),
        *(
            Section(title, tuple(line for line in _client(model, properties.clients[field]) if line.origin != DEFAULT))
            for field, (title, model) in _SHORT.items()
        ),
    )


def explain_rest(file: File) -> Section:
    """Lines of the file that are no settings of ours, and why: they mean nothing here, or are for a user's classes."""
    notes = (finding for finding in file.findings if finding.weight is Weight.NOTE)
    return Section(
        "other lines",
        tuple(Line(note.entry.key, note.entry.shown, f"line {note.entry.line}: {note.text}") for note in notes),
    )


def _all(model: type[KeyModel], properties: Properties) -> Iterator[Line]:
    for spec in keys.specs(model):
        if (value := properties.get(spec.name)) is not None:
            yield _line(spec.name, value)
        else:
            yield Line(spec.name, spec.default or "", DEFAULT)


def _client(model: type[ClientKeys], properties: Properties) -> Iterator[Line]:
    security = [line for line in _all(SecurityKeys, properties) if line.origin != DEFAULT]
    yield from _all(model, properties)
    yield from security or (line for line in _all(SecurityKeys, properties) if line.key == "security.protocol")


def _storage(worker: Properties) -> Iterable[Line]:
    for name, value in worker.items():
        prefix = next((prefix for prefix in _STORAGE if name.startswith(prefix)), None)
        if prefix is not None and name.removeprefix(prefix) not in STORAGE_WORDS:
            yield _line(name, value)


def _line(name: str, value: Value) -> Line:
    if value.entry is None:
        return Line(name, value.text, BY_RULE)
    where = f"line {value.entry.line}"
    return Line(name, value.shown(name).strip(), where if value.entry.key == name else f"{where}: {value.entry.key}")


def _effective(line: Line, settings: FlowSettings) -> Line:
    """Idempotence and batches in flight also follow from each other."""
    produce = settings.clients.produce
    effective = {
        "enable.idempotence": keys.as_text(produce.idempotent),
        "max.in.flight.requests.per.connection": keys.as_text(produce.max_in_flight),
    }.get(line.key)
    return line if effective in (None, line.value.lower()) else Line(line.key, str(effective), FOLLOWS)
