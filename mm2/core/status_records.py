"""Keys and values of ``mm2-status.*``: states of connectors and tasks, and the topics they touched (mm2-compat §2.5).

    status-connector-<connector>                  {"state":…,"trace":…,"worker_id":…,"generation":…,"version":…}
    status-task-<connector>-<number>              the same
    status-topic-<topic>:connector-<connector>    {"topic":{"name":…,"connector":…,"task":…,"discoverTimestamp":…}}

Written to the byte as Java 4.3.1 does it, which says in ``worker_id`` who wrote: ``<host>/<flow>/<something unique>``.
Before 4.3 it was ``<flow>`` alone, and there was no version. A null value: there is no such connector, task or topic.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from mm2.core.formats import FormatError
from mm2.core.jackson import quoted, quoted_or_null
from mm2.core.lease import TaskState
from mm2.core.names import Flow

CONNECTOR_PREFIX = "status-connector-"
TASK_PREFIX = "status-task-"
TOPIC_PREFIX = "status-topic-"
_CONNECTOR_OF_TOPIC = ":connector-"


class ConnectState(StrEnum):
    """States as Kafka Connect has them. STOPPED is one of connectors only."""

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
    TaskState.DRAINING: ConnectState.UNASSIGNED,  # what Java writes of a task that a worker has let go
    TaskState.FAILED: ConnectState.FAILED,
    TaskState.STOPPED: ConnectState.UNASSIGNED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a connector or a task. ``trace``: what went wrong, where it failed. ``generation``: the group's."""

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
    """Our state in Java's words."""
    return _STATES[state]


def worker_id(host: str, flow: Flow, unique: str) -> str:
    """Who writes. ``unique`` is a random UUID in Java; a node's id here."""
    return f"{host}/{flow}/{unique}"


def connector_key(connector: str) -> bytes:
    """The key of a connector's state."""
    return f"{CONNECTOR_PREFIX}{connector}".encode()


def task_key(task: str) -> bytes:
    """The key of a task's state; ``task`` as ``MirrorSourceConnector-3``."""
    return f"{TASK_PREFIX}{task}".encode()


def topic_key(topic: str, connector: str) -> bytes:
    """The key of a topic's use."""
    return f"{TOPIC_PREFIX}{topic}{_CONNECTOR_OF_TOPIC}{connector}".encode()


def encode_status(status: Status) -> bytes:
    """The record value as Java writes it."""
    return (
        f'{{"state":"{status.state}","trace":{quoted_or_null(status.trace)},"worker_id":{quoted(status.worker_id)},'
        f'"generation":{status.generation},"version":{quoted_or_null(status.version)}}}'
    ).encode()


def decode_status(raw: bytes | None) -> Status | None:
    """None where there is no such connector or task any more. Raises FormatError."""
    if raw is None:
        return None
    match _json(raw):
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
                raise FormatError(f"read status: {error}: {raw!r:.200}") from None
    raise FormatError(f"read status: it holds no state: {raw!r:.200}")


def encode_topic_use(use: TopicUse) -> bytes:
    """The record value as Java writes it."""
    return (
        f'{{"topic":{{"name":{quoted(use.topic)},"connector":{quoted(use.connector)},"task":{use.task},'
        f'"discoverTimestamp":{use.discovered_ms}}}}}'
    ).encode()


def decode_topic_use(raw: bytes | None) -> TopicUse | None:
    """None where the use was forgotten. Raises FormatError."""
    if raw is None:
        return None
    match _json(raw):
        case {
            "topic": {
                "name": str(name),
                "connector": str(connector),
                "task": int(task),
                "discoverTimestamp": int(discovered),
            }
        }:
            return TopicUse(topic=name, connector=connector, task=task, discovered_ms=discovered)
    raise FormatError(f"read topic status: it holds no topic: {raw!r:.200}")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _json(raw: bytes) -> object:
    try:
        parsed: object = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"read status: {error}: {raw!r:.200}") from None
    return parsed
