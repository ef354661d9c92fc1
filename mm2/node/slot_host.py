"""The slots of one flow that this node runs: their leases, what their lanes say, and how they are let go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from mm2.config.settings import FlowSettings
from mm2.core.lease import SlotLease, SlotProgress, TaskState
from mm2.core.names import TopicPartition
from mm2.core.pauses import NO_PAUSES
from mm2.core.slot_records import SlotRecord
from mm2.kafka.errors import ClusterError
from mm2.node.config_topic import ConfigTopic
from mm2.node.desk import Desk
from mm2.node.lane import LaneWord
from mm2.node.progress import FlowProgress
from mm2.node.published import TaskStatus
from mm2.node.slot_leases import SlotLeases
from mm2.node.slot_reports import SlotReporter
from mm2.node.trouble import troubled
from mm2.node.whereabouts import HostedSlot

log = logging.getLogger(__name__)

RESTART_SLOT_S = 30.0
"""A slot that failed as a whole shows why for this long and is tried again: long enough to be seen, and to not burn CPU
on something that stays broken."""

LISTEN_EVERY_S = 10.0
"""A slot without news is listened to this often, so that what its partitions demand (`partition_load`) falls."""

CATCH_UP_MS = 5_000
"""How long new slots wait for the newest lists before the others are looked after again; then it is tried anew."""

SETTLE_EVERY_S = 1.0
"""Lanes report once a second; their reports also wake this task at once."""


@dataclass(slots=True, kw_only=True)
class _Life:
    """One time of running a slot: from when it was given to when it was let go. ``epoch`` was that of the answer that
    gave it. ``granted``: the list its lease was made from."""

    slot: int
    epoch: int
    record: SlotRecord | None = None
    granted: frozenset[TopicPartition] = frozenset()
    restart: int = 0
    failed_at: float | None = None
    draining_since: float | None = None
    heard: SlotProgress | None = None
    heard_at: float = float("-inf")
    again: bool = False


class SlotHost:
    """Invariants: (A) a slot runs what its newest list says, without what is paused. (B) the leader is told that a slot
    runs a list when nothing runs any more that an older list had beyond it. (C) a slot is let go when all it
    acknowledged is stored, or after ``patience`` seconds without that, when its lane has left it.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        desk: Desk,
        leases: SlotLeases,
        configs: ConfigTopic,
        reporter: SlotReporter,
        progress: FlowProgress,
        node_id: str,
        let_go: Callable[[int], None],
    ) -> None:
        """``let_go`` is called with a slot that runs no more."""
        self._settings = settings
        self._flow = settings.flow
        self._desk = desk
        self._leases = leases
        self._configs = configs
        self._reporter = reporter
        self._progress = progress
        self._node_id = node_id
        self._let_go = let_go
        self._member_id = ""
        self._lives: dict[int, _Life] = {}
        self._made_anew: set[str] = set()
        self._lane_warnings: list[str] = []
        self._granting: str | None = None
        self._drained_by_node = False

    def take_over(self, settings: FlowSettings) -> None:
        """Go on with other settings; lanes notice nothing."""
        self._settings = settings
        self._leases.take_over(settings)

    # -- what is to run

    def run_slots(self, slots: Mapping[int, int], member_id: str) -> None:
        """Run these slots, each given in the epoch it maps to, as member ``member_id``; drain all others."""
        self._member_id = member_id
        for slot, epoch in slots.items():
            life = self._lives.get(slot)
            if life is None:
                self._lives[slot] = _Life(slot=slot, epoch=epoch)
            elif life.draining_since is not None:
                life.again, life.epoch = True, epoch
        for slot in self._lives.keys() - slots.keys():
            self._drain(self._lives[slot])
        self._desk.wake()

    def restart(self, slot: int) -> bool:
        """Stop the slot and begin it anew from what is stored. False when it does not run here."""
        life = self._lives.get(slot)
        if life is None:
            return False
        life.failed_at = float("-inf")
        self._desk.wake()
        return True

    def freeze(self) -> None:
        """The node is being drained as a whole: change nothing any more."""
        self._drained_by_node = True

    def close(self) -> None:
        """Take all slots from the lanes."""
        for slot in self._lives:
            self._desk.remove((self._flow, slot))
        self._lives.clear()

    # -- what there is to know

    @property
    def trouble(self) -> str | None:
        """What keeps leases from being given, None when nothing does."""
        return self._granting

    @property
    def warnings(self) -> list[str]:
        """What a person should know though all runs."""
        return list(dict.fromkeys(self._lane_warnings + self._leases.warnings))

    @property
    def slots(self) -> Collection[int]:
        """Those that may be running here."""
        return self._lives.keys()

    def hosted(self) -> tuple[HostedSlot, ...]:
        """Those that have begun, with what their lanes say; of the same objects as before while nothing changes."""
        return tuple(
            HostedSlot(slot=slot, partitions=life.record.partitions, states=word.states if word is not None else {})
            for slot, life, word in ((slot, life, self._word(slot)) for slot, life in self._lives.items())
            if life.record is not None
        )

    def written(self) -> Iterator[tuple[str, int]]:
        """The remote topics that have got records from here, each with a slot."""
        for slot in self._lives:
            word = self._word(slot)
            topics = {p.remote_topic for p in word.slot.partitions if p.records_total} if word is not None else set()
            yield from ((topic, slot) for topic in sorted(topics))

    def tasks(self) -> tuple[TaskStatus, ...]:
        """One source task a slot."""
        return tuple(self._task(self._lives[slot]) for slot in sorted(self._lives))

    def _task(self, life: _Life) -> TaskStatus:
        word = self._word(life.slot)
        state = word.slot.state if word is not None else TaskState.WAITING
        if life.record is not None and life.record.partitions and not life.granted and not life.draining_since:
            state = TaskState.PAUSED if self._all_paused(life.record) else state
        return TaskStatus(
            id=f"MirrorSourceConnector-{life.slot}",
            kind="source",
            node=self._node_id,
            state=state,
            error=word.slot.error if word is not None else self._desk.board.trouble((self._flow, life.slot)),
        )

    def _all_paused(self, record: SlotRecord) -> bool:
        return all(self._configs.pauses.covers(partition.topic) for partition in record.partitions)

    # -- the work

    async def run(self) -> None:
        """Keep leases right until cancelled."""
        self._desk.register(self._flow, self._fresh_lease)
        await self._read_ahead()
        while True:
            news = self._desk.news
            self._listen()
            if not self._drained_by_node:
                try:
                    await self._settle(asyncio.get_running_loop().time())
                except ClusterError as error:
                    self._granting = troubled(log, self._flow, self._granting, f"read source offsets: {error}")
                    await asyncio.sleep(SETTLE_EVERY_S)
                else:
                    self._granting = None
            await self._desk.changed(SETTLE_EVERY_S, news)

    async def _read_ahead(self) -> None:
        """Read what leases are made from before the first one is asked for: that may be much."""
        try:
            await self._leases.refresh()
        except ClusterError as error:
            self._granting = troubled(log, self._flow, self._granting, f"read source offsets: {error}")

    def _listen(self) -> None:
        """Take the lanes' newest word. A warning is over when no lane repeats it."""
        now = asyncio.get_running_loop().time()
        warnings: list[str] = []
        for life in self._lives.values():
            word = self._word(life.slot)
            if word is None:
                continue
            warnings += [warning for warning in word.slot.warnings if warning not in warnings]
            if word.slot is life.heard and now - life.heard_at < LISTEN_EVERY_S:
                continue
            life.heard, life.heard_at = word.slot, now
            self._progress.take(word.session, word.slot)
            self._reporter.listen(word.session, word.slot, now)
        for warning in warnings:
            if warning not in self._lane_warnings:
                log.warning("%s: %s", self._flow, warning)
        self._lane_warnings = warnings

    async def _settle(self, now: float) -> None:
        """Bring every slot one step on its way."""
        for life in list(self._lives.values()):
            self._end_if_drained(life, now)
        new = [life for life in self._lives.values() if life.record is None and life.draining_since is None]
        if new:  # a list that was replaced meanwhile must not be begun with
            await self._configs.catch_up(timeout_ms=CATCH_UP_MS)
        due = [life for life in self._lives.values() if life.draining_since is None and self._is_due(life, now)]
        if due:
            await self._leases.refresh()
        for life in due:
            if self._lives.get(life.slot) is life and life.draining_since is None:
                self._grant(life, now)
        self._made_anew.clear()
        for life in self._lives.values():
            self._report(life, now)
        if due:
            self._reporter.keep([partition for one in self.hosted() for partition in one.partitions])

    def _is_due(self, life: _Life, now: float) -> bool:
        """Whether the slot is to get another lease than it has."""
        record = self._configs.slots.records.get(life.slot)
        if record is None or (life.record is None and self._desk.board.runs((self._flow, life.slot))):
            return False  # not published yet; or a lane still leaves it, from an earlier time
        if record != life.record:
            self._made_anew |= self._leases.told(record)
        if life.record is None or self._unpaused(record) != life.granted:
            return True
        if record != life.record:
            life.record = record
        if any(partition.topic in self._made_anew for partition in life.granted):
            return True  # the lanes that copy these are told, and look for themselves
        return self._has_failed(life, now)

    def _unpaused(self, record: SlotRecord) -> frozenset[TopicPartition]:
        pauses = self._configs.pauses
        if pauses == NO_PAUSES:
            return record.partitions
        return frozenset(partition for partition in record.partitions if not pauses.covers(partition.topic))

    def _has_failed(self, life: _Life, now: float) -> bool:
        """Whether a slot that failed as a whole is to get another life, from what is stored."""
        word = self._word(life.slot)
        if life.failed_at == float("-inf"):
            return True  # asked for
        if word is None or not word.current or word.slot.state is not TaskState.FAILED:
            life.failed_at = None
            return False
        if life.failed_at is None:
            life.failed_at = now
        return now - life.failed_at >= RESTART_SLOT_S

    def _grant(self, life: _Life, now: float) -> None:
        record = self._configs.slots.records[life.slot]
        if life.failed_at is not None and life.record is not None and self._has_failed(life, now):
            word = self._word(life.slot)
            why = word.slot.error if word is not None and word.slot.error else "an operator asked for it"
            log.warning("%s: slot %d is started again: %s", self._flow, life.slot, why)
            life.restart += 1
            life.failed_at = None
        life.record, life.granted = record, self._unpaused(record)
        self._desk.put(self._lease(life))

    def _drain(self, life: _Life) -> None:
        life.again = False
        if life.draining_since is not None:
            return
        life.draining_since = asyncio.get_running_loop().time()
        if life.record is not None:
            self._desk.put(self._lease(life))

    def _end_if_drained(self, life: _Life, now: float) -> None:
        """Let go of what was to be drained and is, or takes too long."""
        if life.draining_since is None:
            return
        key, word = (self._flow, life.slot), self._word(life.slot)
        drained = life.record is None or (word is not None and word.slot.drained)
        never_begun = word is None and self._desk.board.idle(key)
        if drained or never_begun:
            self._ended(life)
            return
        patience = self._settings.worker.task_shutdown_graceful_timeout_ms / 1000
        if now - life.draining_since > patience:
            if self._desk.board.lane_has(key):
                log.warning(
                    "%s: slot %d did not drain within %.0f s: it is taken from its lane, and some of its records will"
                    " be copied twice",
                    self._flow,
                    life.slot,
                    patience,
                )
                self._desk.remove(key)
            elif not self._desk.board.runs(key):
                self._ended(life)

    def _ended(self, life: _Life) -> None:
        self._desk.remove((self._flow, life.slot))
        del self._lives[life.slot]
        self._reporter.forget(life.slot)
        if life.again:  # it was given back while it drained
            self._lives[life.slot] = _Life(slot=life.slot, epoch=life.epoch, restart=life.restart + 1)
            self._desk.wake()
        else:
            log.info("%s: slot %d is let go", self._flow, life.slot)
            self._let_go(life.slot)

    def _report(self, life: _Life, now: float) -> None:
        """Tell the leader which list the slot runs."""
        if life.record is not None and self._member_id and self._is_settled(life):
            self._reporter.tell(life.record, self._member_id, now)

    def _is_settled(self, life: _Life) -> bool:
        """Whether nothing runs here that the slot's list does not have."""
        word = self._word(life.slot)
        if word is None:
            return not self._desk.board.runs((self._flow, life.slot))
        listed = life.record.partitions if life.record is not None else frozenset()
        return word.current and word.running <= listed

    # -- leases

    async def _fresh_lease(self, slot: int) -> SlotLease | None:
        """The lease of a slot whose lane begins (again): what it was granted, from what is stored now."""
        life = self._lives.get(slot)
        if life is None or life.record is None:
            return None
        await self._leases.refresh()
        return self._lease(life) if self._lives.get(slot) is life else None

    def _lease(self, life: _Life) -> SlotLease:
        drain = life.draining_since is not None or self._drained_by_node
        return self._leases.lease(life.slot, life.granted, epoch=life.epoch, restart=life.restart, drain=drain)

    def _word(self, slot: int) -> LaneWord | None:
        return self._desk.board.progress((self._flow, slot))
