"""Reading internal topics: records that cannot be decoded are skipped, counted and logged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable

from mm2.core.naming.names import Flow
from mm2.core.wire.formats import FormatError
from mm2.kafka.logs.stored_records import StoredRecord

log = logging.getLogger(__name__)

LOG_EVERY_S = 60.0
"""Invalid records usually come in large numbers, so the first is logged immediately, and then the latest one once per
minute, with the total."""


class SkippedRecords:
    """Counts the records of one internal topic that cannot be decoded: garbage, unknown versions, null values.

    A batch that cannot be read counts as one.
    """

    def __init__(self, flow: Flow, topic: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns monotonic seconds."""
        self.count = 0
        self._flow = flow
        self._topic = topic
        self._clock = clock
        self._logged_at = float("-inf")

    async def apply(
        self, records: AsyncIterator[StoredRecord], take: Callable[[StoredRecord], object], *, step: int
    ) -> None:
        """Call ``take`` with each record as `take` does.

        Yields to the event loop after every ``step`` records.
        """
        taken = 0
        async for record in records:
            self.take(record, take)
            taken += 1
            if taken % step == 0:
                await asyncio.sleep(0)

    def take(self, record: StoredRecord, take: Callable[[StoredRecord], object]) -> None:
        """Call ``take`` with the record. Skip it if its batch could not be read, or ``take`` raises FormatError."""
        try:
            if record.problem is not None:
                raise FormatError(record.problem)  # noqa: TRY301
            take(record)
        except FormatError as error:
            self.skip(record, error)

    def skip(self, record: StoredRecord, reason: FormatError) -> None:
        """Count a skipped record, and log it at most once per `LOG_EVERY_S`."""
        self.count += 1
        now = self._clock()
        if now - self._logged_at >= LOG_EVERY_S:
            self._logged_at = now
            log.warning(
                "%s: skipped a record of %s, partition %d offset %d: %s (%d skipped so far)",
                self._flow,
                self._topic,
                record.partition,
                record.offset,
                reason,
                self.count,
            )
