"""One consumer's fetch session with one broker (KIP-227): the partitions it fetches, and requests with the changes.

Rules from org.apache.kafka.clients.FetchSessionHandler.
"""

from __future__ import annotations

from uuid import UUID

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import FetchSettings
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.fetch_request import INITIAL_EPOCH, NO_SESSION, FetchAnswer, FetchFrom, FetchRequest

_LAST_EPOCH = 2**31 - 1
_NOT_GONE = UUID(int=0)

SESSION_ERRORS = (
    ErrorCode.NONE,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""Session errors that occur in normal operation: the next full request starts another session."""


class FetchSession:
    """Call `want` for every change, then `request`, send it, then `answered` or `lost`; one request at a time.

    (A) After a successful response, the broker's session contains what was wanted when the request was built.
    (B) After any other result the next request is a full one, which does not depend on the broker's session.
    (C) Partitions that were updated last come last in a full request, so that those with data do not starve the others
        on brokers without sessions. (In a session the broker rotates the order itself.)
    (D) Topics are identified by id if all of them have one. A session uses ids or names for its whole life.
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
        """Return the number of partitions wanted."""
        return len(self._wanted)

    def still_has(self, partition: TopicPartition) -> bool:
        """Return whether a partition that is no longer wanted is still in the broker's session.

        If it is wanted again now, the broker treats it as if it had never left, and returns only its changes.
        """
        return partition in self._gone

    def want(self, partition: TopicPartition, fetch_from: FetchFrom | None) -> None:
        """Fetch this partition from the given position; None: stop fetching it."""
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
        """Return the next request."""
        if self._by_id != (not self._without_id):
            self._by_id = not self._by_id
            self.lost()
        full = self._epoch == INITIAL_EPOCH
        partitions = dict(self._wanted) if full else self._changed
        gone = {} if full else dict(sorted(self._gone.items()))
        self._changed, self._gone = {}, {}
        return FetchRequest(
            partitions=partitions,
            forgotten=gone,
            names=self._names if self._by_id else None,
            session_id=self._session_id,
            session_epoch=self._epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=max_bytes,
            isolation=settings.isolation_level,
            rack=settings.client_rack,
        )

    def answered(self, answer: FetchAnswer) -> None:
        """Process the session part of a response, its ``error`` included."""
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
        """No response: the next request starts a new session, which ends the old one if the broker still has it."""
        self._epoch = INITIAL_EPOCH
