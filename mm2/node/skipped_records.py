"""Records of internal topics that could not be read: counted, and told of without filling the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from mm2.core.formats import FormatError
from mm2.core.names import Flow
from mm2.kafka.stored_records import StoredRecord

log = logging.getLogger(__name__)

TOLD_EVERY_S = 60.0
"""Somebody who writes garbage usually writes much of it. The first record is told of at once, with its place and what
is wrong with it; after that, once a minute, the latest and how many there are by then."""


class SkippedRecords:
    """The records of one internal topic that say nothing to us: garbage, versions of a later release, nulls."""

    def __init__(self, flow: Flow, topic: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` is in seconds."""
        self.count = 0
        self._flow = flow
        self._topic = topic
        self._clock = clock
        self._told_at = float("-inf")

    def skip(self, record: StoredRecord, reason: FormatError) -> None:
        """Count one more."""
        self.count += 1
        now = self._clock()
        if now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            log.warning(
                "%s: skipped a record of %s, partition %d offset %d: %s (%d skipped so far)",
                self._flow,
                self._topic,
                record.partition,
                record.offset,
                reason,
                self.count,
            )
