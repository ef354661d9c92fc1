"""Fetched batches on their way from the lane runner to the query, between the two Python workers of a SQL lane.

Grammar of a frame on their Unix socket, big-endian:

    frame := number u64 | wanted u64 | until u64 | partition i32 | max record u32 | topic length u16
             | blob length u32 | topic | blob
    blob  := RecordBatch*
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from flows.batch.decoded import MAX_RECORD

_LEAD = struct.Struct(">QQQiIHI")
_HIGHEST_LIMIT = 2**32 - 1

NO_LIMIT = 2**63 - 1
"""After all offsets."""


class Frame(NamedTuple):
    """Whole batches of one source partition, in order. Only records from source offset ``wanted`` up to, not including,
    ``until`` are wanted.

    ``max_record``: bytes of memory that a record may take (`flows.batch.decoded`).
    """

    number: int
    wanted: int
    topic: str
    partition: int
    blob: bytes | memoryview
    max_record: int = MAX_RECORD
    until: int = NO_LIMIT


def lead(
    number: int,
    wanted: int,
    topic: str,
    partition: int,
    blob_bytes: int,
    *,
    max_record: int = MAX_RECORD,
    until: int = NO_LIMIT,
) -> bytes:
    """Return what precedes the blob of a frame."""
    name = topic.encode()
    return _LEAD.pack(number, wanted, until, partition, min(max_record, _HIGHEST_LIMIT), len(name), blob_bytes) + name


def read_frame(connection: socket.socket) -> Frame | None:
    """Return the next frame; None if the other side has closed the connection, even within a frame."""
    start = _read(connection, _LEAD.size)
    if start is None:
        return None
    number, wanted, until, partition, max_record, topic_length, blob_length = _LEAD.unpack(start)
    topic, blob = _read(connection, topic_length), _read(connection, blob_length)
    if topic is None or blob is None:
        return None
    return Frame(number, wanted, bytes(topic).decode(), partition, blob, max_record, until)


def _read(connection: socket.socket, count: int) -> memoryview | None:
    """Return ``count`` bytes; None if the connection is closed before."""
    buffer = bytearray(count)
    view = memoryview(buffer)
    at = 0
    try:
        while at < count and (got := connection.recv_into(view[at:])):
            at += got
    except ConnectionError:
        return None
    return view if at == count else None
