"""One consumer's fetch session with one broker (KIP-227): what is being fetched, and how to say only what changed.

Rules from org.apache.kafka.clients.FetchSessionHandler.
"""

from __future__ import annotations

from mm2.core.client_settings import FetchSettings
from mm2.core.names import TopicPartition
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.raw_fetch import INITIAL_EPOCH, NO_SESSION, FetchAnswer, FetchFrom, FetchRequest

_LAST_EPOCH = 2**31 - 1

SESSION_ERRORS = (
    ErrorCode.NONE,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
)
"""What an answer may say about its session in the normal course: another full request puts it right."""


class FetchSession:
    """Call `want` for every change, then `request`, send it, then `answered` or `lost`; one request at a time.

    (A) What the broker has after a successful answer is what was wanted when the request was made.
    (B) After anything else the next request is a full one, which needs no memory on the broker's side.
    (C) Partitions that were named last come last in a full request, so that those with data do not starve the others at
        brokers without sessions. (In a session the broker turns the order itself.)
    """

    def __init__(self) -> None:
        self._wanted: dict[TopicPartition, FetchFrom] = {}
        self._changed: dict[TopicPartition, FetchFrom] = {}
        self._gone: set[TopicPartition] = set()
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH

    def __len__(self) -> int:
        """Partitions wanted."""
        return len(self._wanted)

    def want(self, partition: TopicPartition, fetch_from: FetchFrom | None) -> None:
        """Fetch this partition from there on, or no more."""
        if fetch_from is None:
            if self._wanted.pop(partition, None) is not None:
                self._changed.pop(partition, None)
                self._gone.add(partition)
            return
        if partition in self._gone:
            self._gone.discard(partition)
        elif self._wanted.get(partition) == fetch_from:
            return
        self._wanted.pop(partition, None)
        self._wanted[partition] = self._changed[partition] = fetch_from

    def request(self, settings: FetchSettings, *, max_bytes: int, max_wait_ms: int) -> FetchRequest:
        """The next request."""
        full = self._epoch == INITIAL_EPOCH
        request = FetchRequest(
            partitions=dict(self._wanted) if full else self._changed,
            forgotten=() if full else sorted(self._gone),
            session_id=self._session_id,
            session_epoch=self._epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=max_bytes,
            isolation=settings.isolation_level,
            rack=settings.client_rack,
        )
        self._changed, self._gone = {}, set()
        return request

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
