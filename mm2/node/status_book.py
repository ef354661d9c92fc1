"""What ``mm2-status.<source>.internal`` says of tasks and topics: the newest of each, from whichever node."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.formats import FormatError
from mm2.core.names import Flow
from mm2.core.status_records import (
    CONNECTOR_PREFIX,
    TASK_PREFIX,
    TOPIC_PREFIX,
    ConnectState,
    Status,
    decode_status,
    decode_topic_use,
    topic_key,
)
from mm2.kafka.stored_records import StoredRecord
from mm2.node.skipped_records import SkippedRecords

_STATUS_PREFIXES = (CONNECTOR_PREFIX.encode(), TASK_PREFIX.encode())
_TOPIC_PREFIX = TOPIC_PREFIX.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEntry:
    """What was read of one task or connector. None: it is said that there is none.

    ``status`` is what counts, ``newest`` what the last record says, which is stored at ``offset``.
    """

    status: Status | None
    newest: Status | None
    offset: int


class StatusBook:
    """The fold of the topic; Java's records and ours alike (mm2-compat §2.5). Other keys in the topic are passed over.

    A. What counts is the last record of a key, with Java's exception for tasks: UNASSIGNED does not count where another
       worker says RUNNING under the same generation or a newer one. It comes from a worker that let go of the task and
       was slower to say so than the next one was to start it.
    """

    def __init__(self, flow: Flow, topic: str) -> None:
        self._entries: dict[bytes, StatusEntry] = {}
        self._uses: set[bytes] = set()
        self.skipped = SkippedRecords(flow, topic)

    def take(self, record: StoredRecord) -> None:
        """Take in one record."""
        key = record.key or b""
        try:
            if key.startswith(_STATUS_PREFIXES):
                self._take_status(key, decode_status(record.value), record.offset)
            elif key.startswith(_TOPIC_PREFIX):
                if decode_topic_use(record.value) is None:
                    self._uses.discard(key)
                else:
                    self._uses.add(key)
        except FormatError as error:
            self.skipped.skip(record, error)

    def entry(self, key: bytes) -> StatusEntry | None:
        """What was read of the task or connector with this key, if anything."""
        return self._entries.get(key)

    def tasks(self) -> dict[str, Status]:
        """Of every task, such as ``MirrorSourceConnector-3``, what counts."""
        prefix = TASK_PREFIX.encode()
        return {
            key.removeprefix(prefix).decode(errors="replace"): entry.status
            for key, entry in self._entries.items()
            if entry.status is not None and key.startswith(prefix)
        }

    def uses(self, topic: str, connector: str) -> bool:
        """Whether it is known that the connector writes to the topic."""
        return topic_key(topic, connector) in self._uses

    def _take_status(self, key: bytes, newest: Status | None, offset: int) -> None:
        before = self._entries.get(key)
        counts = newest
        if before is not None and key.startswith(TASK_PREFIX.encode()) and _too_late(newest, before.status):
            counts = before.status
        self._entries[key] = StatusEntry(status=counts, newest=newest, offset=offset)


def _too_late(newest: Status | None, before: Status | None) -> bool:
    return (
        newest is not None
        and before is not None
        and newest.state is ConnectState.UNASSIGNED
        and before.state is ConnectState.RUNNING
        and before.generation >= newest.generation
        and before.worker_id != newest.worker_id
    )
