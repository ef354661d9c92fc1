"""One consumer's fetch session with one broker (KIP-227): what is being fetched, and how to say only what changed.

Rules from org.apache.kafka.clients.FetchSessionHandler.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mm2.core.client_settings import FetchSettings
from mm2.core.names import TopicPartition
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.raw_fetch import INITIAL_EPOCH, NO_SESSION, FetchAnswer, FetchFrom, FetchRequest
from mm2.kafka.raw_fetch_by_id import FetchByIdRequest

_LAST_EPOCH = 2**31 - 1
_NOT_GONE = UUID(int=0)

SESSION_ERRORS = (
    ErrorCode.NONE,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""What an answer may say about its session in the normal course: another full request puts it right."""


class FetchSession:
    """Call `want` for every change, then `request`, send it, then `answered` or `lost`; one request at a time.

    (A) What the broker has after a successful answer is what was wanted when the request was made.
    (B) After anything else the next request is a full one, which needs no memory on the broker's side.
    (C) Partitions that were named last come last in a full request, so that those with data do not starve the others at
        brokers without sessions. (In a session the broker turns the order itself.)
    (D) Topics go by their ids if all of them have one. A session goes by ids or by names as long as it lasts.
    """

    def __init__(self) -> None:
        self._wanted: dict[TopicPartition, FetchFrom] = {}
        self._changed: dict[TopicPartition, FetchFrom] = {}
        self._gone: dict[TopicPartition, UUID | None] = {}
        self._names: dict[UUID, str] = {}
        self._without_id = 0  # wanted partitions without a topic id
        self._by_id = False
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH

    def __len__(self) -> int:
        """Partitions wanted."""
        return len(self._wanted)

    def still_has(self, partition: TopicPartition) -> bool:
        """Whether the broker has not been told yet that the partition is wanted no more. If it comes back now, the
        broker takes it for one that never left, and answers only what is news since then."""
        return partition in self._gone

    def want(self, partition: TopicPartition, fetch_from: FetchFrom | None) -> None:
        """Fetch this partition from there on, or no more."""
        before = self._wanted.get(partition)
        again = fetch_from is not None and self._gone.get(partition, _NOT_GONE) == fetch_from.topic_id
        if again:
            del self._gone[partition]
        elif before == fetch_from:
            return
        if before is not None:
            del self._wanted[partition]
            self._changed.pop(partition, None)
            self._without_id -= before.topic_id is None
            if fetch_from is None or fetch_from.topic_id != before.topic_id:
                self._gone[partition] = before.topic_id
        if fetch_from is not None:
            self._wanted[partition] = self._changed[partition] = fetch_from
            if fetch_from.topic_id is None:
                self._without_id += 1
            else:
                self._names[fetch_from.topic_id] = partition.topic

    def request(self, settings: FetchSettings, *, max_bytes: int, max_wait_ms: int) -> FetchRequest:
        """The next request."""
        if self._by_id != (not self._without_id):
            self._by_id = not self._by_id
            self.lost()
        full = self._epoch == INITIAL_EPOCH
        partitions = dict(self._wanted) if full else self._changed
        gone = {} if full else dict(sorted(self._gone.items()))
        how: dict[str, Any] = {
            "session_id": self._session_id,
            "session_epoch": self._epoch,
            "max_wait_ms": max_wait_ms,
            "min_bytes": settings.min_bytes,
            "max_bytes": max_bytes,
            "isolation": settings.isolation_level,
            "rack": settings.client_rack,
        }
        self._changed, self._gone = {}, {}
        if self._by_id:
            return FetchByIdRequest(partitions=partitions, forgotten=gone, names=self._names, **how)
        return FetchRequest(partitions=partitions, forgotten=[one for one in gone if one not in partitions], **how)

    def answered(self, answer: FetchAnswer) -> None:
        """Take note of the session part of an answer; its ``error`` is dealt with."""
        if answer.error == ErrorCode.NONE:
            self._session_id = answer.session_id
            if answer.session_id == NO_SESSION:
                self._epoch = INITIAL_EPOCH
            else:
                self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
            return
        if answer.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION
        self.lost()

    def lost(self) -> None:
        """No answer came: begin anew, and let the broker forget the old session if it still knows it."""
        self._epoch = INITIAL_EPOCH
