"""``mm2-status.<source>.internal`` as every node of a flow reads it: statuses of tasks, and reports about slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mm2.config.settings import FlowSettings
from mm2.core.formats import FormatError
from mm2.core.slot_reports import SlotReport, decode_report, is_report_key
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.node.status_book import StatusBook


class StatusReader:
    """One reader for both, as both lie in one topic."""

    def __init__(self, settings: FlowSettings, target: Cluster, on_report: Callable[[SlotReport], None]) -> None:
        """``on_report`` is called with each report as it comes."""
        topic = self.topic = settings.storage.statuses.name
        self.book = StatusBook(settings.flow, topic)
        self.skipped = self.book.skipped
        self._reports: dict[int, SlotReport] = {}
        self._on_report = on_report
        self._log = CompactedLog(target, topic, purpose="statuses")

    @property
    def reports(self) -> Mapping[int, SlotReport]:
        """The newest about each slot, as far as it was read."""
        return self._reports

    async def follow(self) -> None:
        """Take in everything from the beginning, until cancelled. Raises ClusterError for what waiting does not
        heal."""
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
