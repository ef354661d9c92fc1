"""What a node tells the leader about its slots, through ``mm2-status.<source>.internal`` (`core.slot_reports`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial

from mm2.config.settings import FlowSettings
from mm2.core.lease import SlotProgress
from mm2.core.murmur2 import partition_of
from mm2.core.names import TopicPartition
from mm2.core.partition_load import PartitionLoads, Reading
from mm2.core.slot_records import SlotRecord
from mm2.core.slot_reports import SlotReport
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterClosed, ClusterError

log = logging.getLogger(__name__)


DEMANDS_EVERY_S = 30.0
"""How often the leader is told what the partitions of a slot demand: load that changes faster is not worth a move."""

DEMAND_STEP = 1_000
"""Bytes per second to which demands are rounded, so that a trickle that wavers is no news."""


class SlotReporter:
    """Tells the newest about each slot the node runs, once. What cannot be written is told again with the next
    `tell`."""

    def __init__(self, settings: FlowSettings, producer: ControlProducer, partitions: int, node_id: str) -> None:
        """``partitions``: how many the status topic has."""
        self._flow = settings.flow
        self._topic = settings.storage.statuses.name
        self._producer = producer
        self._partitions = partitions
        self._node_id = node_id
        self._loads = PartitionLoads()
        self._demands: dict[int, dict[TopicPartition, int]] = {}
        self._demanded_at: dict[int, float] = {}
        self._told: dict[int, SlotReport] = {}

    def listen(self, session: str, slot: SlotProgress, now: float) -> None:
        """Learn the load of its partitions from what a lane says, at ``now`` seconds of the loop's clock."""
        run = f"{session}/{slot.epoch}/{slot.slot}"
        for p in slot.partitions:
            reading = Reading(
                at_s=now,
                run=run,
                position=p.position,
                end_offset=p.end_offset,
                records_total=p.records_total,
                bytes_total=p.bytes_total,
            )
            self._loads.take(TopicPartition(p.topic, p.partition), reading)

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the load of all others."""
        self._loads.keep(partitions)

    def tell(self, record: SlotRecord, member_id: str, now: float) -> None:
        """The slot runs nothing that is not in the list ``record``."""
        if now - self._demanded_at.get(record.slot, float("-inf")) >= DEMANDS_EVERY_S:
            self._demanded_at[record.slot] = now
            known = self._loads.demands()
            rounded = {one: DEMAND_STEP * round(known.get(one, 0.0) / DEMAND_STEP) for one in record.partitions}
            self._demands[record.slot] = {one: demand for one, demand in rounded.items() if demand}
        report = SlotReport(
            slot=record.slot,
            epoch=record.epoch,
            version=record.version,
            member=member_id,
            node=self._node_id,
            demands=self._demands[record.slot],
        )
        if self._told.get(report.slot) != report:
            self._write(report)

    def forget(self, slot: int) -> None:
        """The slot was let go: others may report about it, so that even what was told before is news again."""
        self._told.pop(slot, None)

    def _write(self, report: SlotReport) -> None:
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
