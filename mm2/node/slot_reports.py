"""What a node tells the leader about its slots, through ``mm2-status.<source>.internal`` (`core.slot_reports`)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from mm2.config.settings import FlowSettings
from mm2.core.murmur2 import partition_of
from mm2.core.slot_reports import SlotReport
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterClosed, ClusterError

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
