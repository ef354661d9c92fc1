"""Dead letters: records of the dead-letter topic for source records that cannot be copied, and how they are written.

A letter has the key, the value and the headers of the record, and headers that say where it is from and why it cannot
be copied, with the names and the order of Connect's (KIP-298,
org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter). All values of these are UTF-8 strings.

    __connect.errors.topic               orders
    __connect.errors.partition           3
    __connect.errors.offset              1042
    __connect.errors.connector.name      MirrorSourceConnector
    __connect.errors.task.id             0
    __connect.errors.stage               KAFKA_PRODUCE, TRANSFORMATION if a query failed, or TASK_POLL for
                                         a batch that cannot be read
    __connect.errors.class.name          org.apache.kafka.connect.mirror.MirrorSourceTask
    __connect.errors.exception.class.name  the class with which Java reports the error
    __connect.errors.exception.message   cannot copy orders-3 offset 1042 to A.orders-3: …

and, with names of our own,

    mm2.errors.timestamp       epoch ms of the record; the letter's own timestamp is when it was written
    mm2.errors.last.offset     of a batch that cannot be read: its last offset; the value is the whole batch as stored
    mm2.errors.value.bytes     the value is left out, since the dead-letter topic rejects its size, which is this
    mm2.errors.key.bytes       the key and the record's own headers are left out for the same reason; size of the key

With mm2.sql.NAME.dead.letters = without-values, key, value and own headers of what a query has not passed are left out,
too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from flows.partition.rejection import Rejection
from flows.partition.replicator import PartitionReplicator
from flows.partition.timeouts import TIMEOUTS, Timeouts
from mm2.core.lanes.lease import DeadLettersLease
from mm2.core.naming.internal_topics import DEAD_LETTER_BYTES
from mm2.core.naming.names import Flow, TopicPartition
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode

DEAD_LETTER_BUFFER_BYTES = DEAD_LETTER_BYTES
"""One letter at a time; the dead-letter topic accepts no larger one."""

_PARTITION = 0  # letters stay in the order in which they were written
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


_CONNECT = "__connect.errors."
_OWN = "mm2.errors."
_CONNECTOR = "MirrorSourceConnector"
_TASK_CLASS = "org.apache.kafka.connect.mirror.MirrorSourceTask"

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record of the dead-letter topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers


def dead_letters(
    source: TopicPartition,
    source_task: int,
    rejection: Rejection,
    *,
    context_headers: bool,
    source_values: bool = True,
) -> Iterator[DeadLetter]:
    """Yield the letter for what cannot be copied, then smaller ones, for a topic that rejects its size.

    ``context_headers`` False: a letter has only the record's own headers, and those that say what is left out.
    ``source_values`` False: a letter has no contents that only the source has; then there is one letter, which says
    always where the record is.
    """
    record = rejection.record
    key = record.key if record is not None else None
    value = record.value if record is not None else rejection.batch
    own: Headers = ()
    if record is not None:
        own = tuple((name.decode(errors="replace"), content) for name, content in record.headers)
    is_hidden = not source_values and rejection.is_from_source
    context = _context(source, source_task, rejection) if context_headers or is_hidden else ()
    if not is_hidden:
        yield DeadLetter(key=key, value=value, headers=own + context)
    if value is not None:
        context += (_own("value.bytes", len(value)),)
        if not is_hidden:
            yield DeadLetter(key=key, value=None, headers=own + context)
    if key is not None or own or is_hidden:
        context += (_own("key.bytes", len(key or b"")),)
        yield DeadLetter(key=None, value=None, headers=context)


def _context(source: TopicPartition, source_task: int, rejection: Rejection) -> Headers:
    found = [
        _connect("topic", source.topic),
        _connect("partition", source.partition),
        _connect("offset", rejection.first),
        _connect("connector.name", _CONNECTOR),
        _connect("task.id", source_task),
        _connect("stage", rejection.stage),
        _connect("class.name", _TASK_CLASS),
        _connect("exception.class.name", rejection.exception),
        _connect("exception.message", rejection.message),
    ]
    if rejection.record is not None:
        found.append(_own("timestamp", rejection.record.timestamp_ms))
    else:
        found.append(_own("last.offset", rejection.until - 1))
    return tuple(found)


def _connect(name: str, value: str | int) -> tuple[str, bytes]:
    return _CONNECT + name, str(value).encode()


def _own(name: str, value: int) -> tuple[str, bytes]:
    return _OWN + name, str(value).encode()


class DeadLetterWriter:
    """Writes letters and reports the results to their partitions.

    (A) One letter is written at a time, so that a request that is too large contains no other one.
    (B) A letter that the topic rejects as too large is written without value, then without key.
    (C) ``source_values`` False: contents that a query has not passed are not written.
    """

    def __init__(
        self,
        producer: ControlProducer,
        lease: DeadLettersLease,
        *,
        flow: Flow,
        source_task: int,
        source_values: bool = True,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self._report_after_s = timeouts.unanswered_report_s
        self._producer = producer
        self._lease = lease
        self._flow = flow
        self._source_task = source_task
        self._source_values = source_values
        self._writing = asyncio.Lock()

    @property
    def topic(self) -> str:
        return self._lease.topic

    async def write(self, partition: PartitionReplicator, rejection: Rejection) -> None:
        """Write the letter for what the partition cannot copy. Raises ClusterClosed."""
        topic = self._lease.topic
        try:
            await self._patiently(partition, rejection, self._write(partition, rejection))
        except ClusterClosed:
            raise
        except ClusterError as error:
            message = f"{rejection.message}; its dead letter cannot be written to {topic}: {error}"
            partition.dead_letter_failed(rejection, message, time.monotonic())
        else:
            partition.dead_letter_written(rejection, time.monotonic())

    async def _write(self, partition: PartitionReplicator, rejection: Rejection) -> None:
        letters = list(
            dead_letters(
                partition.source,
                self._source_task,
                rejection,
                context_headers=self._lease.context_headers,
                source_values=self._source_values,
            )
        )
        async with self._writing:
            for letter in letters:
                try:
                    await self._send(letter)
                except ClusterError as error:
                    if letter is letters[-1] or not _is_too_large(error):
                        raise
                else:
                    return

    async def _send(self, letter: DeadLetter) -> None:
        await self._producer.send(self._lease.topic, _PARTITION, letter.key, letter.value, headers=letter.headers)

    async def _patiently(
        self, partition: PartitionReplicator, rejection: Rejection, work: Coroutine[Any, Any, None]
    ) -> None:
        """Wait for ``work``, and report to the partition that it takes long."""
        task = asyncio.create_task(work, name=f"{self._flow} dead letter")
        try:
            while not (await asyncio.wait({task}, timeout=self._report_after_s))[0]:
                why = self._producer.last_error or f"not acknowledged within {self._report_after_s:.0f} s"
                message = f"{rejection.message}; its dead letter is not written to {self._lease.topic} yet: {why}"
                partition.dead_letter_delayed(message, time.monotonic())
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        await task


def _is_too_large(error: ClusterError) -> bool:
    return isinstance(error, BrokerError) and error.code in _TOO_LARGE
