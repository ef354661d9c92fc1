"""Records for which a query failed, on their way from a lane to the engine and back with Spark's message.

A state machine without clock and I/O, like `mm2.node.engine.lane_board`.

(A) An ordered record stays in the orders until it is answered or given up, since orders and reports can be lost.
(B) A record is new until it was part of an order for the running engine process.
(C) An order has only the oldest records; the next ones follow when these are answered or given up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from mm2.core.lanes.engine_orders import FailedRecord, RecordError
from mm2.core.lanes.lease import LaneQuery

MAX_ORDERED = 8
"""Records in one order. Their queries are evaluated one after the other, and each order has them again (A), so more
would only make the orders larger."""

MAX_ORDERED_BYTES = 8 * 1024 * 1024
"""Limit for the batches of one order that has several records, in characters of base64."""

OnMessage = Callable[[str | None], None]
"""Receives Spark's message; None if the query did not fail."""


class FailedRecords:
    """The records whose errors the engine should find."""

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, tuple[FailedRecord, OnMessage]] = {}
        self._ordered: set[int] = set()
        self._engine: int | None = None

    def add(self, query: LaneQuery, topic: str, partition: int, batch: str, done: OnMessage) -> int:
        """Ask for the error of the record in ``batch``, which is in base64; return its number."""
        number, self._next = self._next, self._next + 1
        record = FailedRecord(number=number, query=query, topic=topic, partition=partition, batch=batch)
        self._waiting[number] = record, done
        return number

    def give_up(self, number: int) -> None:
        """Forget a record."""
        self._waiting.pop(number, None)
        self._ordered.discard(number)

    def take(self, engine: int, errors: Iterable[RecordError]) -> None:
        """Pass on the answers in a report of the engine process with pid ``engine``."""
        if engine != self._engine:
            self._engine = engine
            self._ordered.clear()
        for error in errors:
            if (waiting := self._waiting.get(error.number)) is not None:
                self.give_up(error.number)
                waiting[1](error.message)

    @property
    def has_new(self) -> bool:
        """Whether the next order has a record that was not part of one yet."""
        return any(record.number not in self._ordered for record in self._due())

    @property
    def has_ordered(self) -> bool:
        """Whether the engine has a record to answer."""
        return bool(self._ordered)

    def orders(self) -> tuple[FailedRecord, ...]:
        """Return the records for an order to the engine, the oldest first."""
        records = self._due()
        self._ordered = {record.number for record in records}
        return records

    def _due(self) -> tuple[FailedRecord, ...]:
        """Return the oldest records, as many as an order has."""
        records: list[FailedRecord] = []
        size = 0
        for record, _ in itertools.islice(self._waiting.values(), MAX_ORDERED):
            size += len(record.batch)
            if records and size > MAX_ORDERED_BYTES:
                break
            records.append(record)
        return tuple(records)
