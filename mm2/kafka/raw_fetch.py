"""The Fetch request with sessions (KIP-227) and rack (KIP-392), and its answer with the records left as bytes.

Grammar (v4 to v11; `n+` marks what a version added):

    request   := replica i32 = -1 | max wait ms i32 | min bytes i32 | max bytes i32 | isolation i8
                 | 7+ session id i32, session epoch i32
                 | [topic str, [partition i32, 9+ leader epoch i32, offset i64, 5+ log start i64 = -1, max bytes i32]]
                 | 7+ forgotten [topic str, [partition i32]] | 11+ rack str
    answer    := throttle ms i32 | 7+ error i16, session id i32
                 | [topic str, [partition i32, error i16, high watermark i64, last stable i64, 5+ log start i64,
                                aborted [producer id i64, first offset i64]?, 11+ preferred replica i32,
                                records bytes?]]

In a session the broker remembers partitions and offsets; a request names only what changed and an answer only what
has news. aiokafka's own structs decode field by field through a stream; here an answer is read in place, and each
partition's records are copied out once, so that one slow partition does not keep the whole answer alive.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from mm2.core.client_settings import IsolationLevel
from mm2.core.names import TopicPartition
from mm2.kafka.raw_request import RawRequest, by_topic, put_string, version_for

_API_KEY = 1
_LOWEST, _HIGHEST = 4, 11  # 4 brings read_committed; 12 has nothing for a consumer; from 13 on topics have no names

_CONSUMER = -1
_NO_LOG_START = -1
NO_SESSION = 0
FINAL_EPOCH = -1  # as session epoch: no session is wanted, or the one named is to end
INITIAL_EPOCH = 0  # as session epoch: a full request that asks for a session

_i16 = struct.Struct(">h")
_i32 = struct.Struct(">i")
_LEAD = struct.Struct(">iiiib")
_SESSION = struct.Struct(">ii")
_PARTITION = {4: struct.Struct(">iqi"), 5: struct.Struct(">iqqi"), 9: struct.Struct(">iiqqi")}
_ANSWER_LEAD_7 = struct.Struct(">ihi")
_RESULT_4 = struct.Struct(">ihqq")
_RESULT_5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")


class FetchFrom(NamedTuple):
    """Where to go on in a partition; ``leader_epoch`` -1 lets the broker not compare. ``topic_id``: of which topic, for
    requests that can tell (`raw_fetch_by_id`)."""

    offset: int
    max_bytes: int
    leader_epoch: int = -1
    topic_id: UUID | None = None


class FetchedPartition(NamedTuple):
    """One partition's part of an answer. Offsets are -1 where the broker does not tell.

    ``aborted`` are (producer id, first offset) of aborted transactions; ``preferred_replica`` -1: stay at this broker.
    """

    topic: str
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]]
    preferred_replica: int
    records: bytes


class FetchAnswer(NamedTuple):
    """``error`` and ``session_id`` concern the session."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: list[FetchedPartition]


class FetchRequest:
    """Ask one broker. ``max_bytes`` bounds the answer, but its first batch comes whole, however large."""

    API_KEY = _API_KEY

    def __init__(
        self,
        *,
        partitions: Mapping[TopicPartition, FetchFrom],
        forgotten: Sequence[TopicPartition] = (),
        session_id: int = NO_SESSION,
        session_epoch: int = FINAL_EPOCH,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: IsolationLevel,
        rack: str = "",
    ) -> None:
        self._partitions = partitions
        self._forgotten = forgotten
        self._session = (session_id, session_epoch)
        self._lead = _LEAD.pack(
            _CONSUMER, max_wait_ms, min_bytes, max_bytes, 1 if isolation is IsolationLevel.READ_COMMITTED else 0
        )
        self._rack = rack

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        """The request in the highest version both sides speak. Raises NotSupported."""
        version = version_for(versions, _API_KEY, "Fetch", _LOWEST, _HIGHEST)
        return RawRequest(_API_KEY, version, self._encode(version), _decode)

    def _encode(self, version: int) -> bytes:
        out = bytearray(self._lead)
        if version >= 7:
            out += _SESSION.pack(*self._session)
        fields = _PARTITION[9 if version >= 9 else 5 if version >= 5 else 4]
        topics = by_topic(self._partitions.items())
        out += _i32.pack(len(topics))
        for topic, partitions in topics.items():
            put_string(out, topic)
            out += _i32.pack(len(partitions))
            for partition, (offset, max_bytes, epoch, _) in partitions:
                if version >= 9:
                    out += fields.pack(partition, epoch, offset, _NO_LOG_START, max_bytes)
                elif version >= 5:
                    out += fields.pack(partition, offset, _NO_LOG_START, max_bytes)
                else:
                    out += fields.pack(partition, offset, max_bytes)
        if version >= 7:
            _put_forgotten(out, self._forgotten)
        if version >= 11:
            put_string(out, self._rack)
        return bytes(out)


def _put_forgotten(out: bytearray, forgotten: Sequence[TopicPartition]) -> None:
    topics = by_topic((one, None) for one in forgotten)
    out += _i32.pack(len(topics))
    for topic, partitions in topics.items():
        put_string(out, topic)
        out += _i32.pack(len(partitions))
        for partition, _ in partitions:
            out += _i32.pack(partition)


def _decode(body: bytes, at: int, version: int) -> FetchAnswer:
    int16, int32 = _i16.unpack_from, _i32.unpack_from
    result = _RESULT_5 if version >= 5 else _RESULT_4
    error, session_id = 0, NO_SESSION
    if version >= 7:
        throttle_ms, error, session_id = _ANSWER_LEAD_7.unpack_from(body, at)
        at += _ANSWER_LEAD_7.size
    else:
        (throttle_ms,) = int32(body, at)
        at += 4
    partitions: list[FetchedPartition] = []
    (topics,) = int32(body, at)
    at += 4
    for _ in range(topics):
        (length,) = int16(body, at)
        at += 2 + length
        topic = body[at - length : at].decode()
        (count,) = int32(body, at)
        at += 4
        for _ in range(count):
            partition, error_code, high_watermark, last_stable, *log_start = result.unpack_from(body, at)
            at += result.size
            (length,) = int32(body, at)
            at += 4
            aborted: Sequence[tuple[int, int]] = ()
            if length > 0:
                aborted = list(_ABORTED.iter_unpack(body[at : at + length * _ABORTED.size]))
                at += length * _ABORTED.size
            preferred = -1
            if version >= 11:
                (preferred,) = int32(body, at)
                at += 4
            (length,) = int32(body, at)
            at += 4
            records = b""
            if length > 0:
                records = body[at : at + length]
                at += length
            partitions.append(
                FetchedPartition(
                    topic=topic,
                    partition=partition,
                    error=error_code,
                    high_watermark=high_watermark,
                    last_stable_offset=last_stable,
                    log_start_offset=log_start[0] if log_start else -1,
                    aborted=aborted,
                    preferred_replica=preferred,
                    records=records,
                )
            )
    return FetchAnswer(throttle_ms, error, session_id, partitions)
