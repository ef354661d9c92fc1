"""The Fetch request that names topics by id (KIP-516): a topic made anew is refused, never taken for the old one.

Grammar (v13; arrays and strings compact, `tags` a tag section; otherwise as in `raw_fetch`):

    request   := replica i32 = -1 | max wait ms i32 | min bytes i32 | max bytes i32 | isolation i8
                 | session id i32 | session epoch i32
                 | [topic uuid, [partition i32, leader epoch i32, offset i64, last fetched epoch i32 = -1,
                                 log start i64 = -1, max bytes i32, tags], tags]
                 | forgotten [topic uuid, [partition i32], tags] | rack str | tags
    answer    := throttle ms i32 | error i16 | session id i32
                 | [topic uuid, [partition i32, error i16, high watermark i64, last stable i64, log start i64,
                                 aborted [producer id i64, first offset i64, tags]?, preferred replica i32,
                                 records bytes?, tags], tags] | tags

Brokers speak it from 3.1 on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from mm2.core.names import TopicPartition
from mm2.kafka.answer_reader import AnswerReader
from mm2.kafka.raw_fetch import FetchAnswer, FetchedPartition, FetchFrom, FetchRequest
from mm2.kafka.raw_request import NO_TAGS, RawRequest, put_compact_string, put_varint

VERSION = 13

_NO_EPOCH = _NO_LOG_START = -1
_NO_ID = UUID(int=0)

_i32 = struct.Struct(">i")
_SESSION = struct.Struct(">ii")
_WANTED = struct.Struct(">iiqiqiB")
_ANSWER_LEAD = struct.Struct(">ihi")
_RESULT = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")


class FetchByIdRequest(FetchRequest):
    """As `FetchRequest`, which it becomes for a broker that does not know of it.

    All ``partitions`` have topic ids. ``forgotten`` says under which id; ``names`` are those of all topics of the
    session, whatever was named last.
    """

    def __init__(
        self,
        *,
        partitions: Mapping[TopicPartition, FetchFrom],
        forgotten: Mapping[TopicPartition, UUID | None],
        names: Mapping[UUID, str],
        session_id: int,
        session_epoch: int,
        rack: str = "",
        **how: Any,
    ) -> None:
        super().__init__(
            partitions=partitions,
            forgotten=[one for one in forgotten if one not in partitions],
            session_id=session_id,
            session_epoch=session_epoch,
            rack=rack,
            **how,
        )
        self._forgotten_ids = forgotten
        self._names = names

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> RawRequest:
        lowest, highest = versions.get(self.API_KEY, (0, -1))
        if not lowest <= VERSION <= highest:
            return super().prepare(versions)
        return RawRequest(self.API_KEY, VERSION, self._encode_by_id(), _decoder(self._names), flexible=True)

    def _encode_by_id(self) -> bytes:
        out = bytearray(self._lead)
        out += _SESSION.pack(*self._session)
        topics: dict[UUID | None, list[tuple[int, FetchFrom]]] = {}
        for one, wanted in self._partitions.items():
            topics.setdefault(wanted.topic_id, []).append((one.partition, wanted))
        put_varint(out, len(topics) + 1)
        for topic_id, partitions in topics.items():
            out += (topic_id or _NO_ID).bytes
            put_varint(out, len(partitions) + 1)
            for number, (offset, max_bytes, epoch, _) in partitions:
                out += _WANTED.pack(number, epoch, offset, _NO_EPOCH, _NO_LOG_START, max_bytes, NO_TAGS)
            out.append(NO_TAGS)
        self._put_forgotten_by_id(out)
        put_compact_string(out, self._rack)
        out.append(NO_TAGS)
        return bytes(out)

    def _put_forgotten_by_id(self, out: bytearray) -> None:
        topics: dict[UUID, list[int]] = {}
        for one, topic_id in self._forgotten_ids.items():
            wanted = self._partitions.get(one)
            if topic_id is not None and (wanted is None or wanted.topic_id != topic_id):
                topics.setdefault(topic_id, []).append(one.partition)
        put_varint(out, len(topics) + 1)
        for topic_id, partitions in topics.items():
            out += topic_id.bytes
            put_varint(out, len(partitions) + 1)
            for number in partitions:
                out += _i32.pack(number)
            out.append(NO_TAGS)


def _decoder(names: Mapping[UUID, str]) -> Callable[[bytes, int, int], FetchAnswer]:
    def decode(body: bytes, at: int, _version: int) -> FetchAnswer:
        reader = AnswerReader(body, at, flexible=True)
        throttle_ms, error, session_id = reader.fixed(_ANSWER_LEAD)
        partitions: list[FetchedPartition] = []
        for _ in range(reader.length()):
            topic_id = reader.uuid()
            name = names.get(topic_id) if topic_id is not None else None
            for _ in range(reader.length()):
                fetched = _partition(reader, name or "")
                if name is not None:
                    partitions.append(fetched)
            reader.tags()
        return FetchAnswer(throttle_ms, error, session_id, partitions)

    return decode


def _partition(reader: AnswerReader, topic: str) -> FetchedPartition:
    partition, error, high_watermark, last_stable, log_start = reader.fixed(_RESULT)
    aborted: Sequence[tuple[int, int]] = ()
    count = reader.length()
    if count:
        aborted = [_aborted(reader) for _ in range(count)]
    (preferred,) = reader.fixed(_i32)
    size = reader.length()
    begin = reader.at
    reader.skip(size)
    records = reader.since(begin)
    reader.tags()
    return FetchedPartition(
        topic=topic,
        partition=partition,
        error=error,
        high_watermark=high_watermark,
        last_stable_offset=last_stable,
        log_start_offset=log_start,
        aborted=aborted,
        preferred_replica=preferred,
        records=records,
    )


def _aborted(reader: AnswerReader) -> tuple[int, int]:
    producer_id, first_offset = reader.fixed(_ABORTED)
    reader.tags()
    return producer_id, first_offset
