"""Dead letters: records of the dead-letter topic for source records that cannot be copied.

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

from collections.abc import Iterator
from dataclasses import dataclass

from flows.partition.rejection import Rejection
from mm2.core.naming.names import TopicPartition

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
