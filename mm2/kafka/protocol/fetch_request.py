"""The Fetch request with sessions (KIP-227), rack (KIP-392), leader epochs (KIP-320, KIP-595) and topic ids (KIP-516).

In a session the broker stores partitions and offsets; a request contains only changes, and a response only partitions
with new data. Topics are identified by name up to version 12 and by id from 13 on (brokers 3.1+): a recreated topic is
then rejected, never mistaken for the old one. From version 12 on (brokers 2.7+) the broker compares the epoch of the
last fetched record with its log, and answers where the logs part. Records are left as bytes. Those of a partition are
copied out of the response once, so that one slow partition does not keep the whole response in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.leader_epochs import UNKNOWN_EPOCH, EpochEnd
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.protocol import schema
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.schema import BYTES, INT8, INT16, INT32, INT64, STRING, Since, Tagged

BY_NAME = range(4, 13)  # 4 brings read_committed
CHECKS_EPOCHS = 12  # the first version with the last fetched epoch
BY_ID = 13

NO_SESSION = 0
FINAL_EPOCH = -1  # as session epoch: no session, or close the given one
INITIAL_EPOCH = 0  # as session epoch: a full request that opens a session

_CONSUMER = -1  # as replica id
_NO_LOG_START = -1

_TOPIC = {"topic": Since(0, STRING, until=BY_ID - 1), "topic_id": Since(BY_ID, schema.UUID)}


class FetchFrom(NamedTuple):
    """The position to fetch a partition from.

    ``leader_epoch`` is the leader's according to metadata, and ``last_fetched_epoch`` that of the record before
    ``offset``; -1: not checked by the broker. ``topic_id`` None: the topic is identified by name.
    """

    offset: int
    max_bytes: int
    leader_epoch: int = UNKNOWN_EPOCH
    topic_id: UUID | None = None
    last_fetched_epoch: int = UNKNOWN_EPOCH


class FetchedPartition(NamedTuple):
    """One partition of a response. Offsets are -1 if the broker does not report them.

    ``aborted`` are (producer id, first offset) of aborted transactions; ``preferred_replica`` -1: stay on this broker.
    ``diverging``: the broker's log does not contain the record before the fetch offset, and there are no records.
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
    diverging: EpochEnd | None = None


class FetchAnswer(NamedTuple):
    """A fetch response; ``error`` and ``session_id`` concern the session.

    ``checks_epochs``: the broker compared the last fetched epochs with its log.
    """

    throttle_ms: int
    error: int
    session_id: int
    partitions: list[FetchedPartition]
    checks_epochs: bool = True


class FetchRequest(
    ApiRequest,
    api_key=1,
    versions=(*BY_NAME, BY_ID),
    first_flexible=12,
    request={
        "replica_id": INT32,
        "max_wait_ms": INT32,
        "min_bytes": INT32,
        "max_bytes": INT32,
        "isolation": INT8,
        "session_id": Since(7, INT32),
        "session_epoch": Since(7, INT32),
        "topics": [
            {
                **_TOPIC,
                "partitions": [
                    {
                        "partition": INT32,
                        "leader_epoch": Since(9, INT32),
                        "offset": INT64,
                        "last_fetched_epoch": Since(CHECKS_EPOCHS, INT32),
                        "log_start_offset": Since(5, INT64),
                        "max_bytes": INT32,
                    }
                ],
            }
        ],
        "forgotten": Since(7, [{**_TOPIC, "partitions": [INT32]}]),
        "rack": Since(11, STRING),
    },
    response={
        "throttle_ms": INT32,
        "error": Since(7, INT16),
        "session_id": Since(7, INT32),
        "topics": [
            {
                **_TOPIC,
                "partitions": [
                    {
                        "partition": INT32,
                        "error": INT16,
                        "high_watermark": INT64,
                        "last_stable_offset": INT64,
                        "log_start_offset": Since(5, INT64),
                        "aborted": [{"producer_id": INT64, "first_offset": INT64}],
                        "preferred_replica": Since(11, INT32),
                        "records": BYTES,
                        "diverging": Tagged(0, {"epoch": INT32, "end_offset": INT64}),
                    }
                ],
            }
        ],
    },
):
    """Fetch from one broker. ``max_bytes`` limits the response, except that its first batch is always complete.

    ``names`` are those of all topics of the session, if all ``partitions`` have topic ids; None: topics are identified
    by name. ``forgotten`` partitions leave the session, with the topic id given. The response is a `FetchAnswer`
    without topics that are not among ``names``.
    """

    def __init__(
        self,
        *,
        partitions: Mapping[TopicPartition, FetchFrom],
        forgotten: Mapping[TopicPartition, UUID | None] | None = None,
        names: Mapping[UUID, str] | None = None,
        session_id: int = NO_SESSION,
        session_epoch: int = FINAL_EPOCH,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: IsolationLevel,
        rack: str = "",
    ) -> None:
        level = 1 if isolation is IsolationLevel.READ_COMMITTED else 0
        super().__init__(_CONSUMER, max_wait_ms, min_bytes, max_bytes, level, session_id, session_epoch)
        self._partitions = partitions
        self._forgotten = forgotten or {}
        self._names = names
        self._rack = rack
        self._checks_epochs = True

    def usable_versions(self) -> Sequence[int]:
        return BY_NAME if self._names is None else self._versions

    def values(self, version: int) -> Sequence[Any]:
        by_id = version >= BY_ID
        self._checks_epochs = version >= CHECKS_EPOCHS
        wanted: dict[str | UUID | None, list[tuple[int, ...]]] = {}
        for one, (offset, max_bytes, epoch, topic_id, last_epoch) in self._partitions.items():
            row = (one.partition, epoch, offset, last_epoch, _NO_LOG_START, max_bytes)
            wanted.setdefault(topic_id if by_id else one.topic, []).append(row)
        forgotten: dict[str | UUID | None, list[int]] = {}
        for one, topic_id in self._forgotten.items():
            still = self._partitions.get(one)
            if still is None or (by_id and still.topic_id != topic_id):
                forgotten.setdefault(topic_id if by_id else one.topic, []).append(one.partition)
        if by_id:
            forgotten.pop(None, None)
        topics = [(topic, topic, rows) for topic, rows in wanted.items()]
        return *self._values, topics, [(topic, topic, numbers) for topic, numbers in forgotten.items()], self._rack

    def parse(self, *fields: Any) -> FetchAnswer:
        throttle_ms, error, session_id, topics = fields
        partitions: list[FetchedPartition] = []
        for topic, topic_id, rows in topics:
            name = topic if topic_id is None or self._names is None else self._names.get(topic_id)
            if name is None:
                continue
            for number, code, high_watermark, last_stable, log_start, aborted, preferred, records, diverging in rows:
                partitions.append(
                    FetchedPartition(
                        name,
                        number,
                        code,
                        high_watermark,
                        last_stable,
                        -1 if log_start is None else log_start,
                        aborted or (),
                        -1 if preferred is None else preferred,
                        records or b"",
                        None if diverging is None else EpochEnd(*diverging),
                    )
                )
        return FetchAnswer(throttle_ms, error or 0, session_id or NO_SESSION, partitions, self._checks_epochs)
