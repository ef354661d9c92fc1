"""The offsets of a stream in its consumer group: where partitions start, and what is committed of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.settings.client import FetchSettings, OffsetReset
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.consumer_member import ConsumerMember
from mm2.kafka.groups.groups import ReadCommitted, committed_offsets
from mm2.mirror1.stream_reports import StreamReports

log = logging.getLogger("mm2.mirror1")

ListOffsets = Callable[..., Awaitable[Mapping[TopicPartition, int | ClusterError]]]
"""Reads offsets of partitions (`list_offsets`)."""


class StreamOffsets:
    """The offsets of the partitions that are assigned in one generation of the group.

    (A) What is committed is what lanes have reported, an offset before which the target has everything, or where a
        partition starts.
    (B) There is one commit at a time: a commit is retried, and would overwrite a later one.
    (C) A partition without a committed offset starts where ZooKeeper has the group, if it does (Kafka's old consumer).
        Where the group has a committed offset, that start is not used any more: the topic can be deleted and recreated.
    (D) Under auto.offset.reset = latest, the end of a partition without a committed offset is read once, as soon as it
        is assigned, and committed. What is written later is copied, whenever a lane starts.
    """

    def __init__(
        self,
        flow: Flow,
        cluster: Cluster,
        group_id: str,
        member: ConsumerMember,
        reports: StreamReports,
        *,
        fetch: FetchSettings,
        read_committed: ReadCommitted = committed_offsets,
        old_offsets: dict[TopicPartition, int],
        list_offsets: ListOffsets = list_offsets,
    ) -> None:
        """``cluster`` is the source, which stores the offsets of the group. ``old_offsets``: those in ZooKeeper, from
        which the streams of a group remove what is committed."""
        self._fetch = fetch
        self._read_committed = read_committed
        self._list_offsets = list_offsets
        self._old_offsets = old_offsets
        self._flow = flow
        self._cluster = cluster
        self._group_id = group_id
        self._member = member
        self._reports = reports
        self._starts: dict[TopicPartition, int | None] = {}
        self._first_starts: dict[TopicPartition, int] = {}  # decided in this assignment, and not committed yet
        self._former_starts: dict[TopicPartition, int] = {}  # decided in an earlier one, and never committed
        self._committed: dict[TopicPartition, int] = {}
        self._committing = asyncio.Lock()
        self.epoch = 0

    def begin(self) -> None:
        """Begin the next assignment: of the one before it count only starts that no member has committed since."""
        self.end()
        self.epoch += 1
        self._starts, self._committed = {}, {}
        self._reports.begin(self.epoch)

    def end(self) -> None:
        """End the assignment: without one, starts cannot be committed."""
        self._former_starts |= self._first_starts
        self._first_starts = {}

    async def decide(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | ClusterError | None]:
        """Return where each partition starts; None if a lane chooses by auto.offset.reset; or why that is unknown.

        Starts that are decided here are committed. Raises ClusterError.
        """
        stored = await self._stored(partitions)
        starts: dict[TopicPartition, int | ClusterError | None] = {
            one: self._committed.get(one, start) for one, start in stored.items()
        }
        missing = [one for one, start in starts.items() if start is None]
        for one in starts.keys() - missing:
            self._old_offsets.pop(one, None)
        former = {one: self._former_starts.pop(one) for one in starts if one in self._former_starts}
        self._first_starts |= {one: former[one] for one in missing if one in former}
        undecided = [one for one in missing if one not in self._first_starts]
        self._take_old_offsets(undecided)
        errors = await self._take_ends([one for one in undecided if one not in self._first_starts])
        first = {one: self._first_starts[one] for one in missing if one in self._first_starts}
        if first:
            await self.commit(first)
        return {**starts, **first, **errors}

    def _take_old_offsets(self, partitions: Collection[TopicPartition]) -> None:
        """(C)"""
        old = {one: self._old_offsets[one] for one in partitions if one in self._old_offsets}
        if old:
            log.info("%s: no offset is committed: starting at that of ZooKeeper: %s", self._flow, _places(old))
        self._first_starts |= old

    async def _take_ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ClusterError]:
        """(D) Return why ends cannot be read. Raises ClusterError."""
        if not partitions or self._fetch.auto_offset_reset is not OffsetReset.LATEST:
            return {}
        isolation = self._fetch.isolation_level
        found = await self._list_offsets(
            self._cluster, partitions, OffsetSpec.LATEST, isolation=isolation, timeout_ms=0
        )
        ends = {one: end for one, end in found.items() if isinstance(end, int)}
        if ends:
            log.info(
                "%s: no offset is committed, and auto.offset.reset is latest: starting at the end: %s",
                *(self._flow, _places(ends)),
            )
        self._first_starts |= ends
        return {one: error for one, error in found.items() if isinstance(error, ClusterError)}

    async def _stored(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the committed offset of each partition; None if there is none. Raises ClusterError."""
        if not partitions:
            return {}
        found = (await self._read_committed(self._cluster, [self._group_id]))[self._group_id]
        if isinstance(found, ClusterError):
            raise found
        stored: dict[TopicPartition, int | None] = {}
        for one in partitions:
            committed = found.get(one)
            stored[one] = None if committed is None else committed.offset
        return stored

    def start(self, starts: Mapping[TopicPartition, int | None]) -> None:
        """Start partitions at these offsets (`decide`); None: where auto.offset.reset says."""
        self._starts.update(starts)

    async def refresh_starts(self, partitions: Collection[TopicPartition]) -> bool:
        """Read the committed offsets of the partitions of which no lane has reported a position.

        Return False if the assignment has changed meanwhile. Raises ClusterError.
        """
        epoch, positions = self.epoch, self._reports.positions()
        starts = await self._stored([one for one in partitions if one not in positions])
        if epoch != self.epoch:
            return False
        self._starts.update(starts)
        return True

    def starts_of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return where a lane starts now: after what the target has, as far as that is reported or committed."""
        known = {**self._starts, **self._committed, **self._positions()}
        return {one: known.get(one) for one in partitions}

    def chosen(self) -> list[TopicPartition]:
        """Return the partitions whose start was chosen here or by a lane, and is not committed yet."""
        known = self._reports.positions()
        by_lanes = [one for one in known if self._starts.get(one, 0) is None and one not in self._committed]
        return [*by_lanes, *(self._first_starts.keys() - by_lanes)]

    def _positions(self) -> dict[TopicPartition, int]:
        return {**self._first_starts, **self._reports.positions()}

    async def commit(self, partitions: Collection[TopicPartition]) -> bool:
        """Commit the positions of partitions; return whether all are committed."""
        async with self._committing:
            return await self._commit_positions(partitions)

    async def _commit_positions(self, partitions: Collection[TopicPartition]) -> bool:
        positions = self._positions()
        new = {
            one: positions[one]
            for one in partitions
            if one in positions and self._committed.get(one, self._starts.get(one)) != positions[one]
        }
        if not new:
            return True
        epoch = self.epoch
        try:
            outcome: Mapping[TopicPartition, ClusterError | None] = await self._member.commit(new)
        except ClusterError as error:
            log.warning("%s: cannot commit offsets: %s", self._flow, error)
            return False
        if epoch == self.epoch:
            self._committed.update({one: new[one] for one, failure in outcome.items() if failure is None})
        for one, failure in outcome.items():
            if failure is None:
                self._first_starts.pop(one, None)
                self._old_offsets.pop(one, None)
        failures = {str(failure) for failure in outcome.values() if failure is not None}
        if failures:
            log.warning("%s: cannot commit offsets: %s", self._flow, "; ".join(sorted(failures)))
        return not failures


def _places(offsets: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{one} at {offset}" for one, offset in sorted(offsets.items()))
