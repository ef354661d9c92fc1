"""The audit topic of a flow: what operators did with the flow, from all of its nodes."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from mm2.config.settings import FlowSettings
from mm2.core.access.audit import AuditEntry
from mm2.core.masking import masked
from mm2.core.naming import internal_topics
from mm2.core.naming.internal_topics import AUDIT_CONFIGS
from mm2.core.naming.names import TopicPartition
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying

log = logging.getLogger(__name__)

MOST_BYTES = 4 * 1024 * 1024
"""Records that wait while the target does not accept them: thousands of commands, or eight of the largest."""

ANSWER_WITHIN_S = 10.0
"""After this time without an answer, the status of the flow says so; the write continues."""

PARTITION = 0


class AuditQueue:
    """The records of a flow that are not in the topic yet, the oldest first; it outlives the sessions of the flow.

    If it is full, the oldest records are dropped and counted: they are in the log of the node. Used on one event loop.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._records: deque[tuple[bytes, bytes]] = deque()
        self._filled = asyncio.Event()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, entry: AuditEntry) -> None:
        """Add a record. Its key is the ID of the command."""
        record = (entry.id or "").encode(), masked(entry.to_json()).encode()
        self._bytes += len(record[1])
        while self._records and self._bytes > self._most_bytes:
            self._pop()
            self.dropped += 1
        self._records.append(record)
        self._filled.set()

    async def first(self) -> tuple[bytes, bytes]:
        """Wait for a record and return key and value; it stays in the queue until `remove`."""
        while not self._records:
            self._filled.clear()
            await self._filled.wait()
        return self._records[0]

    def remove(self, record: tuple[bytes, bytes]) -> None:
        """Remove a record that is stored; unless it was dropped meanwhile, it is the first one."""
        if self._records and self._records[0] is record:
            self._pop()

    def _pop(self) -> None:
        self._bytes -= len(self._records.popleft()[1])


class AuditStore:
    """Creates the topic, and writes the queue to it. Nothing waits for it: a command is executed all the same.

    ``error`` has the reason why records are not written, for the status of the flow.
    """

    def __init__(self, settings: FlowSettings, target: Cluster, producer: ControlProducer, queue: AuditQueue) -> None:
        self._settings = settings
        self._admin = settings.admin_class(target)
        self._internal_topic = internal_topics.audit(settings.flow)
        self._partition = TopicPartition(self._internal_topic.name, PARTITION)
        self._producer = producer
        self._queue = queue
        self.error = CurrentError(log, settings.flow)

    @property
    def reasons(self) -> list[str]:
        """Messages about records that are missing in the topic."""
        found = [] if self.error.text is None else [self.error.text]
        if self._queue.dropped:
            found.append(
                f"{self._queue.dropped} audit records were dropped, since they could not be written to"
                f" {self._partition.topic} for long; they are in the logs of the nodes"
            )
        return found

    async def follow(self) -> None:
        """Create the topic, and write records until cancelled; return immediately if the flow has no audit topic."""
        if not (self._settings.enabled and self._settings.takes_commands):
            return

        async def attempt() -> None:
            await ensure_internal_topic(
                self._admin,
                self._internal_topic,
                replication_factor=self._settings.checkpoint.checkpoints_topic_replication_factor,
                settings=AUDIT_CONFIGS,
            )
            self.error.hide()
            while True:
                record = await self._queue.first()
                await self._write(*record)
                self._queue.remove(record)
                self.error.clear()

        await keep_trying(attempt, self.error, self._text)

    async def _write(self, key: bytes, value: bytes) -> None:
        written = self._producer.send(self._partition.topic, PARTITION, key, value)
        while not (await asyncio.wait({written}, timeout=ANSWER_WITHIN_S))[0]:
            cause = self._producer.error_of(self._partition)
            self.error.report(self._text(cause or f"no answer within {ANSWER_WITHIN_S:.0f} s"))
        await written

    def _text(self, error: BaseException | str) -> str:
        return (
            f"audit records cannot be written to {self._partition.topic}: {error}; they are in the logs of the nodes,"
            " and commands are executed"
        )
