"""Keys and values of ``mm2-status.*``: the states of connectors and tasks, and their topics (KafkaStatusBackingStore).

    status-connector-<connector>                  {"state":…,"trace":…,"worker_id":…,"generation":…,"version":…}
    status-task-<connector>-<number>              the same
    status-topic-<topic>:connector-<connector>    {"topic":{"name":…,"connector":…,"task":…,"discoverTimestamp":…}}

Byte-identical to Java 4.3.1, where ``worker_id`` identifies the writer: ``<host>/<flow>/<unique ID>``. Before 4.3 it
was ``<flow>`` alone, and there was no version. A null value means that the connector, task or topic does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow
from mm2.core.wire.formats import FormatError
from mm2.core.wire.jackson import quoted, quoted_or_null
from mm2.core.wire.json_bytes import decode_json

CONNECTOR_PREFIX = "status-connector-"
TASK_PREFIX = "status-task-"
TOPIC_PREFIX = "status-topic-"
_CONNECTOR_OF_TOPIC = ":connector-"


class ConnectState(StrEnum):
    """States of Kafka Connect. STOPPED applies to connectors only."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


_STATES = {
    TaskState.WAITING: ConnectState.UNASSIGNED,
    TaskState.RUNNING: ConnectState.RUNNING,
    TaskState.PAUSED: ConnectState.PAUSED,
    TaskState.DRAINING: ConnectState.UNASSIGNED,  # what Java writes for a task that a worker has released
    TaskState.FAILED: ConnectState.FAILED,
    TaskState.STOPPED: ConnectState.UNASSIGNED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a connector or a task. ``trace``: the error if it failed. ``generation``: the group's generation."""

    state: ConnectState
    trace: str | None = None
    worker_id: str
    generation: int
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """Task ``task`` of ``connector`` wrote to ``topic``, for the first time at ``discovered_ms`` (epoch ms)."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


def connect_state(state: TaskState) -> ConnectState:
    """Return the Connect state for a task state."""
    return _STATES[state]


def worker_id(host: str, flow: Flow, unique: str) -> str:
    """Return the writer's ID. ``unique`` is a random UUID in Java, and the node ID here."""
    return f"{host}/{flow}/{unique}"


def connector_key(connector: str) -> bytes:
    """Return the key of a connector's state."""
    return f"{CONNECTOR_PREFIX}{connector}".encode()


def task_key(task: str) -> bytes:
    """Return the key of a task's state; ``task`` such as ``MirrorSourceConnector-3``."""
    return f"{TASK_PREFIX}{task}".encode()


def topic_key(topic: str, connector: str) -> bytes:
    """Return the key of a topic's use."""
    return f"{TOPIC_PREFIX}{topic}{_CONNECTOR_OF_TOPIC}{connector}".encode()


def encode_status(status: Status) -> bytes:
    """The record value as Java writes it."""
    return (
        f'{{"state":"{status.state}","trace":{quoted_or_null(status.trace)},"worker_id":{quoted(status.worker_id)},'
        f'"generation":{status.generation},"version":{quoted_or_null(status.version)}}}'
    ).encode()


def decode_status(raw: bytes | None) -> Status | None:
    """Read a status; None if the connector or task no longer exists. Raises FormatError."""
    if raw is None:
        return None
    match decode_json(raw, "status"):
        case {"state": str(state), "worker_id": str(worker), "generation": int(generation), **rest}:
            try:
                return Status(
                    state=ConnectState(state),
                    trace=_text(rest.get("trace")),
                    worker_id=worker,
                    generation=generation,
                    version=_text(rest.get("version")),
                )
            except ValueError as error:
                raise FormatError(f"cannot read status: {error}: {raw!r:.200}") from None
    raise FormatError(f"cannot read status: no state in it: {raw!r:.200}")


def encode_topic_use(use: TopicUse) -> bytes:
    """The record value as Java writes it."""
    return (
        f'{{"topic":{{"name":{quoted(use.topic)},"connector":{quoted(use.connector)},"task":{use.task},'
        f'"discoverTimestamp":{use.discovered_ms}}}}}'
    ).encode()


def decode_topic_use(raw: bytes | None) -> TopicUse | None:
    """Read a topic's use; None if it was deleted. Raises FormatError."""
    if raw is None:
        return None
    match decode_json(raw, "status"):
        case {
            "topic": {
                "name": str(name),
                "connector": str(connector),
                "task": int(task),
                "discoverTimestamp": int(discovered),
            }
        }:
            return TopicUse(topic=name, connector=connector, task=task, discovered_ms=discovered)
    raise FormatError(f"cannot read topic status: no topic in it: {raw!r:.200}")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
