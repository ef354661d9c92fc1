"""The answers to `EngineOrders.failed_records`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue

from mm2.core.lanes.engine_orders import FailedRecord, RecordError

MessageFor = Callable[[FailedRecord], str | None]
"""Returns Spark's message for a record, or None if its query does not fail. May take seconds."""


class RecordErrors:
    """Finds the errors of failed records in a thread of its own, so that the engine's reports do not wait.

    (A) The query of a record is evaluated once, however often the orders repeat its number.
    (B) An answer is part of every report until the orders no longer contain its number, so that none is lost.
    """

    def __init__(self, message_for: MessageFor) -> None:
        self._message_for = message_for
        self._queue: SimpleQueue[FailedRecord | None] = SimpleQueue()
        self._lock = threading.Lock()  # of _wanted and _found, which both threads change
        self._wanted: frozenset[int] = frozenset()
        self._asked: set[int] = set()
        self._found: dict[int, RecordError] = {}
        self._thread: threading.Thread | None = None

    def apply(self, records: Iterable[FailedRecord]) -> None:
        """Evaluate the queries of new records; forget those that the orders no longer contain."""
        ordered = {record.number: record for record in records}
        with self._lock:
            self._wanted = frozenset(ordered)
            self._found = {number: error for number, error in self._found.items() if number in ordered}
        for number, record in ordered.items():
            if number not in self._asked:
                self._queue.put(record)
        self._asked = set(ordered)
        if ordered and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="record errors", daemon=True)
            self._thread.start()

    def found(self) -> tuple[RecordError, ...]:
        """Return the answers for the newest orders."""
        with self._lock:
            return tuple(self._found.values())

    def close(self) -> None:
        """End the thread after its current evaluation."""
        with self._lock:
            self._wanted = frozenset()
        self._queue.put(None)

    def _run(self) -> None:
        while (record := self._queue.get()) is not None:
            if not self._is_wanted(record.number):
                continue
            try:
                message = self._message_for(record)
            except Exception as error:  # noqa: BLE001 py4j raises many kinds of Exception
                text = "" if record.query.hides_values else f": {error}".partition("\n")[0]  # can quote the record
                message = f"{type(error).__name__}{text}"
            with self._lock:
                if record.number in self._wanted:
                    self._found[record.number] = RecordError(number=record.number, message=message)

    def _is_wanted(self, number: int) -> bool:
        with self._lock:
            return number in self._wanted
