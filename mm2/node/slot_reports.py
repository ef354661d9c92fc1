"""What nodes and leader tell each other about slots through ``mm2-status.<source>.internal`` (`core.slot_reports`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from mm2.config.settings import FlowSettings
from mm2.core.formats import FormatError
from mm2.core.murmur2 import partition_of
from mm2.core.slot_reports import SlotReport, decode_report, is_report_key
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.node.skipped_records import SkippedRecords

log = logging.getLogger(__name__)


class SlotReporter:
    """A node's side: tells the newest about each slot it runs, once. What cannot be written is told again with the next
    `tell`."""

    def __init__(self, settings: FlowSettings, producer: ControlProducer, partitions: int) -> None:
        """``partitions``: how many the status topic has."""
        self._flow = settings.flow
        self._topic = settings.storage.statuses.name
        self._producer = producer
        self._partitions = partitions
        self._told: dict[int, SlotReport] = {}

    def tell(self, report: SlotReport) -> None:
        """Write the report down, unless it is what was last told of the slot."""
        if self._told.get(report.slot) == report:
            return
        self._told[report.slot] = report
        key = report.key()
        try:
            written = self._producer.send(self._topic, partition_of(key, self._partitions), key, report.value())
        except ClusterError as error:
            self._failed(report, error)
        else:
            written.add_done_callback(partial(self._written, report))

    def _written(self, report: SlotReport, done: asyncio.Future[int]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClusterError) and not isinstance(error, ClusterClosed):
            self._failed(report, error)

    def _failed(self, report: SlotReport, error: ClusterError) -> None:
        if self._told.get(report.slot) is report:
            del self._told[report.slot]
        log.warning("%s: tell the leader what slot %d runs: %s", self._flow, report.slot, error)


class SlotReports:
    """The leader's side: the newest report of each slot."""

    def __init__(self, settings: FlowSettings, target: Cluster, on_report: Callable[[SlotReport], None]) -> None:
        topic = settings.storage.statuses.name
        self._log = CompactedLog(target, topic, purpose="slot reports")
        self._skipped = SkippedRecords(settings.flow, topic)
        self._on_report = on_report

    async def follow(self) -> None:
        """Hand out every report from the beginning, until cancelled. Raises ClusterError for what waiting does not
        heal."""
        async for record in self._log.follow():
            if not is_report_key(record.key) or record.value is None:
                continue
            try:
                self._on_report(decode_report(record.key, record.value))
            except FormatError as error:
                self._skipped.skip(record, error)
