"""``mm2-status.<source>.internal`` as every node of a flow reads it: statuses of tasks, and reports about slots."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from mm2.config.settings import FlowSettings
from mm2.core.formats import FormatError
from mm2.core.slot_reports import SlotReport, decode_report, is_report_key
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.errors import ClusterError
from mm2.node.status_book import StatusBook
from mm2.node.trouble import LASTING_S, troubled

log = logging.getLogger(__name__)

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 10_000
"""What cannot be read is tried again after one second, then more rarely: a permission may be missing for long."""


class StatusReader:
    """One reader for both, as both lie in one topic. ``trouble``: why nothing can be read, None while it can."""

    def __init__(self, settings: FlowSettings, target: Cluster, on_report: Callable[[SlotReport], None]) -> None:
        """``on_report`` is called with each report as it comes."""
        self._flow = settings.flow
        topic = self.topic = settings.storage.statuses.name
        self.book = StatusBook(settings.flow, topic)
        self.skipped = self.book.skipped
        self._reports: dict[int, SlotReport] = {}
        self._on_report = on_report
        self._log = CompactedLog(target, topic, purpose="statuses")
        self.trouble: str | None = None

    @property
    def reports(self) -> Mapping[int, SlotReport]:
        """The newest about each slot, as far as it was read."""
        return self._reports

    async def run(self) -> None:
        """Take in everything from the beginning, until cancelled, through everything that can be waited out. Without it
        all goes on but partitions that are to change their slot."""
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        said: str | None = None
        while True:
            began = time.monotonic()
            try:
                self.trouble = None
                await self._follow()
            except ClusterError as error:
                if time.monotonic() - began > LASTING_S:
                    backoff.reset()
                    said = None
                sentence = f"read {self.topic}: {error}; until this works no partition changes its slot"
                self.trouble = said = troubled(log, self._flow, said, sentence)
                await asyncio.sleep(backoff.next())

    async def _follow(self) -> None:
        async for record in self._log.follow():
            if not is_report_key(record.key):
                self.book.take(record)
            elif record.value is not None:
                try:
                    report = decode_report(record.key, record.value)
                except FormatError as error:
                    self.skipped.skip(record, error)
                else:
                    self._reports[report.slot] = report
                    self._on_report(report)
