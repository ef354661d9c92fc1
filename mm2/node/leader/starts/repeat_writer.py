"""Copies partitions again: stores their starts when no source task runs them (`mm2.core.coordination.repeats`)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

from mm2.config.settings import FlowSettings
from mm2.core.coordination.repeats import Repeat, RepeatState, drained, encode_repeat, some_of
from mm2.core.log_records import about
from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.leader.starts.latest_start_writer import Put
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.status.progress import ReplicatedTopic
from mm2.node.store.config_store import ConfigStore

log = logging.getLogger(__name__)

DRAIN_LOOK_S = 0.5
"""How often it is looked whether source tasks have drained partitions; they report about once a second."""

DONE_LOOK_S = 10.0
"""How often the stored offsets are read while partitions are copied again."""

WRITTEN_AT_ONCE = 1_000
"""Records of one transaction: about 200 kB."""

LogStarts = Callable[[Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, int | ClusterError]]]
"""Returns the first offset of source partitions, or why it is not known."""


class RepeatWriter:
    """Takes requests to copy partitions again, and brings each to its end, also those of earlier leaders.

    (A) The start of a partition is stored only when the plan has it in no list and no source task may be running it
        (`SourceTaskPlan.is_free`): what its lane has stored last is older.
    (B) A repeat is STARTED, and its partition listed again, only after its start was read back. A leader that is lost
        in between leaves the rest to the next one.
    (C) A leader that has been replaced writes nothing, if the cluster allows transactions.
    (D) An error does not end the leader's term: it is shown and retried. Meanwhile, the partition is not copied.

    `LeaderTerm` owns it and calls it on its event loop.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        configs: ConfigStore,
        stored: StoredSourceOffsets,
        put: Put,
        log_starts: LogStarts,
        is_free: Callable[[TopicPartition], bool],
        topics: Callable[[], Sequence[ReplicatedTopic] | None],
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``log_starts`` asks the source where its logs start. ``is_free``: whether no source task may be running a
        partition. ``topics``: the topics that the flow replicates; None: they are not known yet. ``changed`` is called
        when other partitions are pending. ``clock`` returns monotonic seconds."""
        self._flow = settings.flow
        self._log_starts = log_starts
        self._configs = configs
        self._stored = stored
        self._put = put
        self._is_free = is_free
        self._topics = topics
        self._changed = changed
        self._clock = clock
        self._due = asyncio.Event()
        self._due.set()  # what earlier leaders have left
        self._moved = asyncio.Event()
        self._look_at = float("-inf")  # monotonic: when it is looked next which repeats have caught up
        self.error = CurrentError(log, settings.flow)

    async def request(self, repeats: Sequence[Repeat]) -> None:
        """Store these requests, and revoke their partitions. Raises ClusterError."""
        await self._write(repeats)
        self._due.set()

    async def settled(self, partitions: Collection[TopicPartition], within_s: float) -> bool:
        """Wait until none of the partitions is pending; return False if that takes longer."""
        try:
            async with asyncio.timeout(within_s):
                while not self._configs.repeats.pending.isdisjoint(partitions):
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Bring repeats to their end until cancelled. Raises Fenced if another node is the leader."""
        while True:
            repeats = self._configs.repeats
            pause = DRAIN_LOOK_S if repeats.pending else DONE_LOOK_S if repeats.open else None
            try:
                async with asyncio.timeout(pause):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            if self._configs.repeats.open:
                await keep_trying(self._attempt, self.error, "copy partitions again", expected=(_Failed,))

    async def _attempt(self) -> None:
        try:
            await self.step()
        except Fenced:
            raise
        except ClusterError as error:
            raise _Failed(str(error)) from error

    async def step(self) -> None:
        """Bring each repeat to its next state, if that is possible now. Raises ClusterError."""
        await self._cancel_gone()
        free = [one for one in self._configs.repeats.open if one.is_pending and self._is_free(one.partition)]
        unread = await self._start(free) if free else {}
        await self._finish()
        if unread:
            raise next(iter(unread.values()))

    async def _cancel_gone(self) -> None:
        """Cancel repeats of topics that were recreated, and pending ones of those that are not replicated any more."""
        topics = self._topics()
        if topics is None:
            return
        known = {one.topic: one for one in topics}
        now = _now()
        gone = []
        for repeat in self._configs.repeats.open:
            topic = known.get(repeat.partition.topic)
            if repeat.is_pending and (topic is None or topic.partitions <= repeat.partition.partition):
                gone.append(repeat.cancelled("the flow does not replicate it any more", now))
            elif topic is not None and repeat.is_of_another(topic.topic_ids.source):
                gone.append(repeat.cancelled("its topic was recreated on the source", now))
        await self._write(gone)

    async def _start(self, free: Sequence[Repeat]) -> Mapping[TopicPartition, ClusterError]:
        """Store the starts of partitions that no source task runs; return why some cannot be started."""
        asked = [one.partition for one in free if one.state is RepeatState.REQUESTED]
        earliest = await self._log_starts(asked) if asked else {}
        errors = {one: error for one, error in earliest.items() if isinstance(error, ClusterError)}
        await self._stored.refresh()
        now = _now()
        moved = [
            drained(
                one,
                stored=self._stored.position(one.partition),
                earliest=start if isinstance(start := earliest.get(one.partition, 0), int) else 0,
                now=now,
            )
            for one in free
            if one.partition not in errors
        ]
        await self._write([one for one in moved if one not in free])
        storing = {one.partition: one for one in moved if one.state is RepeatState.STORING}
        for number, records in self._stored.records({one: storing[one].first for one in storing}).items():
            await self._put(records, TopicPartition(self._stored.topic, number))
        await self._stored.refresh()
        started = [one for one in storing.values() if self._stored.position(one.partition) == one.first]
        await self._write([one.moved(RepeatState.STARTED, _now()) for one in started])
        for one in started:
            log.warning(
                *("%s: %s: %s", self._flow, one.partition, one.moved(RepeatState.STARTED, now).last_word),
                extra=about(partition=one.partition),
            )
        return errors

    async def _finish(self) -> None:
        """Note which repeats have caught up with what was copied before them."""
        started = [one for one in self._configs.repeats.open if one.state is RepeatState.STARTED]
        if not started or self._clock() < self._look_at:
            return
        self._look_at = self._clock() + DONE_LOOK_S
        await self._stored.refresh()
        now = _now()
        await self._write(
            [
                one.moved(RepeatState.DONE, now)
                for one in started
                if (position := self._stored.position(one.partition)) is not None and position >= (one.until or 0)
            ]
        )

    async def _write(self, repeats: Sequence[Repeat]) -> None:
        pending = self._configs.repeats.pending
        for first in range(0, len(repeats), WRITTEN_AT_ONCE):
            await self._put([encode_repeat(one) for one in repeats[first : first + WRITTEN_AT_ONCE]], None)
        if repeats:
            await self._configs.catch_up()
        if self._configs.repeats.pending != pending:
            self._changed()
        self._moved.set()

    def reasons(self) -> Iterator[str]:
        """Yield why partitions that are to be copied again are not copied, if that lasts."""
        if self.error.text is not None:
            pending = sorted(map(str, self._configs.repeats.pending))
            yield f"{self.error.text}; not copied until then: {some_of(pending)}" if pending else self.error.text


def _now() -> int:
    return time.time_ns() // 1_000_000


class _Failed(Exception):
    """A repeat could not be brought to its next state, for a reason that does not end the leader's term."""
