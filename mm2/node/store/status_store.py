"""The status topic: the newest status of each task, of all nodes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mm2.core.assignment.source_task_releases import SourceTaskRelease, decode_release, is_release_key
from mm2.core.assignment.source_task_reports import SourceTaskReport, decode_report, is_report_key
from mm2.core.coordination.query_uses import ReportedQueryUses, is_query_use_key
from mm2.core.naming.names import Flow
from mm2.core.wire.status_records import (
    CONNECTOR_PREFIX,
    TASK_PREFIX,
    TOPIC_PREFIX,
    ConnectState,
    Status,
    decode_status,
    decode_topic_use,
    topic_key,
)
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.store.skipped_records import SkippedRecords

log = logging.getLogger(__name__)

FIRST_READ_S = 5.0
"""How long to wait until the topic has been read, for what needs only the newest records: it takes milliseconds."""

_STATUS_PREFIXES = (CONNECTOR_PREFIX.encode(), TASK_PREFIX.encode())
_TOPIC_PREFIX = TOPIC_PREFIX.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEntry:
    """The status of one task or connector; None is a tombstone.

    ``status`` is the effective status, ``newest`` the status of the last record, which is stored at ``offset``.
    """

    status: Status | None
    newest: Status | None
    offset: int


class StatusStore:
    """The contents of ``mm2-status.<source>.internal``, written by Java or by this release.

    It contains statuses of tasks and connectors, used topics, and reports and releases of source tasks, also about the
    queries that they apply. Other keys are ignored.

    ``query_uses``: the reports about queries.

    A. The last record of a key is effective, with Java's exception for tasks: UNASSIGNED is ignored after RUNNING of
       another worker with the same or a newer generation. It comes from a worker that reported the release of the task
       later than the next worker reported its start.

    ``error`` is why the topic cannot be read.
    """

    def __init__(
        self,
        flow: Flow,
        topic: str,
        on_report: Callable[[SourceTaskReport], None] = lambda _: None,
        on_query_uses: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_report`` is called with each source task report, ``on_query_uses`` after each report about queries."""
        self.topic = topic
        self.skipped = SkippedRecords(flow, topic)
        self.error = CurrentError(log, flow)
        self.query_uses = ReportedQueryUses()
        self._on_report = on_report
        self._on_query_uses = on_query_uses
        self._reports: dict[int, SourceTaskReport] = {}
        self._releases: dict[int, SourceTaskRelease] = {}
        self._read = asyncio.Event()  # to the end that the topic had at the start
        self._entries: dict[bytes, StatusEntry] = {}
        self._uses: set[bytes] = set()

    @property
    def reports(self) -> Mapping[int, SourceTaskReport]:
        """The newest report about each source task."""
        return self._reports

    async def release(self, source_task: int) -> SourceTaskRelease | None:
        """Return the last orderly release of the source task, if it is known within `FIRST_READ_S`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_READ_S):
                await self._read.wait()
        return self._releases.get(source_task)

    async def follow(self, target: Cluster) -> None:
        """Read the topic from its beginning until cancelled.

        While it cannot be read, copying continues, but no partition moves to another source task.
        """
        records = CompactedLog(target, self.topic, purpose="statuses")

        async def attempt() -> None:
            self.error.hide()
            async for record in records.read_to_end():
                self.take(record)
            self._read.set()
            async for record in records.follow():
                self.take(record)

        def text(error: BaseException) -> str:
            return f"cannot read {self.topic}: {error}; until it can be read, no partition moves to another source task"

        await keep_trying(attempt, self.error, text)

    def take(self, record: StoredRecord) -> None:
        """Apply one record, or skip it."""
        self.skipped.take(record, self._apply)

    def entry(self, key: bytes) -> StatusEntry | None:
        """Return the entry of the task or connector with this key, if any."""
        return self._entries.get(key)

    def tasks(self) -> dict[str, Status]:
        """Return the effective status of every task, by its ID such as ``MirrorSourceConnector-3``."""
        prefix = TASK_PREFIX.encode()
        return {
            key.removeprefix(prefix).decode(errors="replace"): entry.status
            for key, entry in self._entries.items()
            if entry.status is not None and key.startswith(prefix)
        }

    def uses(self, topic: str, connector: str) -> bool:
        """Return whether the connector is recorded as a user of the topic."""
        return topic_key(topic, connector) in self._uses

    def _apply(self, record: StoredRecord) -> None:
        key = record.key or b""
        if key.startswith(_STATUS_PREFIXES):
            self._take_status(key, decode_status(record.value), record.offset)
        elif key.startswith(_TOPIC_PREFIX):
            if decode_topic_use(record.value) is None:
                self._uses.discard(key)
            else:
                self._uses.add(key)
        elif is_report_key(record.key) and record.value is not None:
            report = decode_report(record.key, record.value)
            self._reports[report.source_task] = report
            self._on_report(report)
        elif is_release_key(record.key) and record.value is not None:
            release = decode_release(record.key, record.value)
            self._releases[release.source_task] = release
        elif is_query_use_key(record.key) and record.value is not None:
            self.query_uses.take(record.key, record.value)
            self._on_query_uses()

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
