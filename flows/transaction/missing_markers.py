"""Finds partitions of the target without the marker of a transaction that has ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from flows.partition.replicator import PartitionReplicator
from flows.source_task.spawn import Spawn
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterClosed, ClusterError

log = logging.getLogger(__name__)

CHECK_AFTER_S = 1.0
"""When the marker of a committed transaction is checked, if no other transaction follows it."""

FORGOTTEN_AFTER_S = 60.0
"""When a remote partition that ends before the committed records is taken for truncated or recreated."""

MOST_ABORTS = 3
"""How often an open transaction is aborted: if it stays open, it is that of another producer."""

_ANSWER_S = 1.0  # for the brokers to answer


@dataclass(frozen=True, slots=True)
class Open:
    """Offsets of a remote partition: records from ``stable`` to ``end`` are in transactions without marker."""

    stable: int
    end: int


@dataclass(slots=True)
class LastCommit:
    """The last committed transaction of a partition: the offset after its records on the target, and times in
    monotonic seconds. ``is_repeated``: the next transaction of the partition is to commit it again."""

    end: int
    committed_at: float
    check_at: float
    is_repeated: bool = False


class MissingMarkers:
    """In Kafka 4.3, a transaction ends without a marker in a partition that has no leader at that moment
    (TransactionMarkerChannelManager takes it for deleted). Its records stay open, and the next marker of the producer,
    whether it commits or aborts, ends them too.

    (A) If no other transaction follows, a partition without the marker of its last committed transaction is found
        after `CHECK_AFTER_S` and joins another transaction, whose marker commits those records.
    (B) Before a transaction is aborted, `without_commit` finds the partitions in which that would abort the committed
        transaction before it.
    (C) After a transaction was aborted, its partitions stay out of transactions (`keeps_out`) until their leaders have
        no open transaction; an open one has to be aborted again (`take_open`).
    """

    def __init__(
        self,
        cluster: Cluster,
        spawn: Spawn,
        *,
        partitions: Collection[PartitionReplicator],
        commit_again: Callable[[PartitionReplicator], None],
        released: Callable[[PartitionReplicator], None],
        on_open: Callable[[], None],
    ) -> None:
        """``partitions``: those of the source task at any time. ``commit_again``: (A). ``released``: a partition does
        not have to stay out any more. ``on_open``: `take_open` returns partitions."""
        self._cluster = cluster
        self._spawn = spawn
        self._partitions = partitions
        self._commit_again = commit_again
        self._released = released
        self._on_open = on_open
        self._committed: dict[PartitionReplicator, LastCommit] = {}  # whose markers are not known to be there
        self._aborted: dict[PartitionReplicator, int] = {}  # how often
        self._open: dict[PartitionReplicator, Open] = {}
        self._has_aborted = asyncio.Event()

    def committed(self, joined: Iterable[PartitionReplicator], now: float) -> None:
        """A transaction with these partitions is committed."""
        for partition in joined:
            self._committed[partition] = LastCommit(partition.remote_end, now, now + CHECK_AFTER_S)

    def aborted(self, joined: Iterable[PartitionReplicator], with_committed: Iterable[PartitionReplicator]) -> None:
        """A transaction with these partitions is aborted, and with it the last committed one of some."""
        for partition in joined:
            self._aborted.setdefault(partition, 0)
            if (last := self._committed.get(partition)) is not None:
                last.is_repeated = False
        for partition in with_committed:
            self._committed.pop(partition, None)
        self._has_aborted.set()

    def keeps_out(self, partition: PartitionReplicator) -> bool:
        """Return whether the partition has to stay out of transactions now."""
        return partition in self._aborted

    @property
    def has_open(self) -> bool:
        """Whether `take_open` returns partitions."""
        return bool(self._open)

    def take_open(self) -> dict[PartitionReplicator, bool]:
        """Return the partitions with an open transaction to abort, and whether a committed one is open, too."""
        taken = {
            partition: (last := self._committed.get(partition)) is not None and found.stable < last.end <= found.end
            for partition, found in self._open.items()
            if partition in self._partitions
        }
        self._open.clear()
        for partition in taken:
            self._aborted[partition] += 1
            self._committed.pop(partition, None)
        return taken

    async def without_commit(self, joined: Iterable[PartitionReplicator]) -> list[PartitionReplicator]:
        """Return those whose last committed transaction has no marker; without those that do not answer in time."""
        asked = {partition: self._committed[partition] for partition in joined if partition in self._committed}
        stable = await self._offsets(asked, IsolationLevel.READ_COMMITTED)
        suspects = [partition for partition, offset in stable.items() if offset < asked[partition].end]
        ends = await self._offsets(suspects, IsolationLevel.READ_UNCOMMITTED)
        missing: list[PartitionReplicator] = []
        now = time.monotonic()
        for partition, last in asked.items():
            if self._committed.get(partition) is not last:
                continue  # another transaction followed meanwhile
            end = ends.get(partition)
            is_marked = partition in stable and partition not in suspects
            is_truncated = end is not None and end < last.end and now - last.committed_at > FORGOTTEN_AFTER_S
            if is_marked or is_truncated:
                del self._committed[partition]
            elif end is not None and end >= last.end:
                missing.append(partition)
            else:  # its leader does not answer, or does not know yet what is replicated
                last.check_at = now + max(CHECK_AFTER_S, (now - last.committed_at) / 2)
        return missing

    def start(self) -> None:
        """Check partitions from now on."""
        self._spawn(self._run())

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_AFTER_S / 2):
                    await self._has_aborted.wait()
            self._has_aborted.clear()
            for known in (self._committed, self._aborted, self._open):
                for partition in [one for one in known if one not in self._partitions]:
                    del known[partition]
            await self._check_aborted()
            await self._check_committed()

    async def _check_aborted(self) -> None:
        asked = [partition for partition in self._aborted if partition not in self._open]
        stable = await self._offsets(asked, IsolationLevel.READ_COMMITTED)
        ends = await self._offsets(stable, IsolationLevel.READ_UNCOMMITTED)
        for partition, end in ends.items():
            found = Open(stable[partition], end)
            if partition not in self._aborted:
                continue
            if found.stable >= found.end or self._aborted[partition] >= MOST_ABORTS:
                del self._aborted[partition]
                self._released(partition)
            else:
                log.warning("%s: abort marker is missing; sending EndTxn (abort) again", partition.target)
                self._open[partition] = found
        if self._open:
            self._on_open()

    async def _check_committed(self) -> None:
        now = time.monotonic()
        due = [one for one, last in self._committed.items() if now >= last.check_at and not last.is_repeated]
        for partition in await self.without_commit([one for one in due if one not in self._aborted]):
            self._committed[partition].is_repeated = True
            log.warning("%s has no marker of a committed transaction: it is committed again", partition.target)
            self._commit_again(partition)

    async def _offsets(
        self, partitions: Collection[PartitionReplicator], isolation: IsolationLevel
    ) -> dict[PartitionReplicator, int]:
        """Return the end offsets for readers with this ``isolation``, where the leaders answer in time."""
        if not partitions:
            return {}
        places = {partition.target for partition in partitions}
        try:
            async with asyncio.timeout(_ANSWER_S):
                found = await list_offsets(self._cluster, places, OffsetSpec.LATEST, isolation=isolation, timeout_ms=0)
        except ClusterClosed:
            raise
        except (ClusterError, TimeoutError):
            return {}
        offsets = {partition: found[partition.target] for partition in partitions}
        return {partition: offset for partition, offset in offsets.items() if not isinstance(offset, ClusterError)}
