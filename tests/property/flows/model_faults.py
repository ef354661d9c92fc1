"""Model of a source task to which everything happens that its environment can do: see `FaultyWorld`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from flows.batch.target_batch import TargetBatch
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange
from flows.target.produce_errors import from_exception
from mm2.core.lanes.losses import Loss, LossKind
from mm2.core.lanes.task_states import TaskState
from mm2.core.offsets.leader_epochs import UNKNOWN_EPOCH, EpochStarts, before
from mm2.core.settings.client import OffsetReset
from mm2.kafka.errors import Unreachable
from tests.lab.batches import HEADER, Record
from tests.property.flows.model import World
from tests.property.flows.model_partitions import Target
from tests.property.flows.model_source import ChangingSource
from tests.property.flows.transactional import TransactionalTarget, TransactionalWorld

_Step = Callable[[], None]


class FaultyWorld(World):
    """A source task whose source changes and fails, which is interrupted, moved and killed, and whose operator reacts.

    It checks at each step

    (A) that what is stored or checked is on the target, or reported as lost or left out;
    (B) that a partition for which nothing can be done any more says why, and that something will end that: an alarm,
        an operator, or an answer.
    """

    source: ChangingSource  # type: ignore[assignment]

    def __init__(
        self,
        source: ChangingSource,
        target: Target,
        rng: random.Random,
        *,
        reset: OffsetReset = OffsetReset.EARLIEST,
        events: Sequence[str] = (),
        **options: Any,
    ) -> None:
        """``events``: the methods, without underscore, of what happens besides what `World` has."""
        self.reset = reset
        self.stored: int | None = None  # the source offset, as in the offsets topic
        self._stored_epochs: EpochStarts = ()  # of the records before it, as in the exact offsets topic
        self.losses: dict[tuple[str, int], Loss] = {}
        self.given_up: set[bytes | None] = set()  # the keys of records that are reported as lost
        self.begin = 0
        self.is_exact = True  # no record has to be repeated
        self.crashes = self.moves = self.truncations = self.changes_while_uncertain = 0
        self._events: list[_Step] = [getattr(self, f"_{name}") for name in events]
        self._asked_epoch = UNKNOWN_EPOCH
        self._is_listing = self._is_leaving = self._awaits_drained = self._awaits_start = False
        self._accepts: Loss | None = None
        self._is_checked = True  # the position, since the last election
        self._known: set[bytes | None] = set()  # the keys on the target
        self._known_until = 0
        super().__init__(source, target, rng, **options)  # type: ignore[arg-type]

    # -- listener

    def lost(self, replicator: PartitionReplicator, loss: Loss) -> None:
        super().lost(replicator, loss)
        self.losses[loss.kind, loss.first] = loss
        if loss.kind != LossKind.TRUNCATED:
            self.given_up |= {one.key for one in self.source.records if loss.first <= one.offset < loss.until}

    def start_chosen(self, replicator: PartitionReplicator) -> None:
        super().start_chosen(replicator)
        assert replicator.offset_to_commit is not None
        self.begin = replicator.offset_to_commit + 1
        self._awaits_start = True

    def drained(self, replicator: PartitionReplicator) -> None:
        super().drained(replicator)
        self._awaits_drained = False

    def truncated(self, replicator: PartitionReplicator, offset: int) -> None: ...

    def acknowledged(
        self, replicator: PartitionReplicator, batch: TargetBatch, base_offset: int, checked: OffsetRange
    ) -> None:
        self._judge_checked(checked)

    def skipped(self, replicator: PartitionReplicator, checked: OffsetRange) -> None:
        self._judge_checked(checked)

    def left_out(self, replicator: PartitionReplicator, checked: OffsetRange) -> None:
        self._judge_checked(checked)

    def passed_over(self, replicator: PartitionReplicator, checked: OffsetRange) -> None:
        self._judge_checked(checked)

    def remote_end_moved_back(self, replicator: PartitionReplicator) -> None: ...

    # -- judgement

    @property
    def copied(self) -> list[Record]:
        """What consumers of the target get."""
        return self.target.records

    def _on_target(self) -> set[bytes | None]:
        self._known |= {record.key for record in self.target.records[self._known_until :]}
        self._known_until = len(self.target.records)
        return self._known

    def _required(self, first: int, until: int) -> Iterable[Record]:
        """The records that must be on the target, if everything before ``until`` is."""
        wanted = [one for one in self.source.records if first <= one.offset < until and one.key not in self.given_up]
        return wanted if self.query is None else self.query.results(wanted)

    def _judge_checked(self, checked: OffsetRange) -> None:
        if self._is_checked:  # otherwise it does not know yet that the source has other records there
            self.judge_until(checked.end, first=checked.start)

    def judge_until(self, until: int, *, first: int = 0) -> None:
        """Everything from source offset ``first`` up to ``until`` is on the target, or reported."""
        there = self._on_target()
        assert not [one.offset for one in self._required(max(first, self.begin), until) if one.key not in there]

    def judge(self, copied: Sequence[Record]) -> None:
        """Everything is copied in order, and once as far as that is possible."""
        assert self.replicator.position >= self.source.end
        self.judge_until(self.source.end)
        keys = [record.key for record in copied]
        origins = self.source.ever if self.query is None else {}
        assert all(origins[one.key][1:] == one[1:] for one in copied if origins)
        if self.is_exact:
            assert len(keys) == len(set(keys))
        if not self.truncations:
            first_copies = [self.source.ever[key].offset for key in dict.fromkeys(keys)]
            assert first_copies == sorted(first_copies)
            if not self.query:
                self._judge_deleted()
        elif not self.crashes:  # otherwise what is repeated may have been deleted in part
            current = {record.key for record in self.source.records}
            last_copies = dict.fromkeys(key for key in reversed(keys) if key in current)
            offsets = [self.source.ever[key].offset for key in last_copies]
            assert offsets == sorted(offsets, reverse=True)

    def _judge_deleted(self) -> None:
        lost = [loss for loss in self.losses.values() if loss.kind != LossKind.TRUNCATED]
        known = self._on_target() | self.given_up
        gone = [one.offset for one in self.source.deleted if one.offset >= self.begin and one.key not in known]
        assert gone == [offset for offset in gone if any(loss.first <= offset < loss.until for loss in lost)]

    # -- steps

    def step(self) -> None:
        if self._events and self.target.faulty and self.rng.random() < 0.15:
            self.rng.choice(self._events)()
            self.check()
        elif self._is_leaving and self.replicator.is_idle and self._may_move():
            self._move()
            self.check()
        elif self.rng.random() < 0.05:
            self._operate()
            self.check()
        else:
            super().step()

    def check(self) -> None:
        super().check()
        replicator = self.replicator
        if not self._is_active:
            progress = replicator.progress(self.now, self.now)
            assert progress.error is not None or progress.state is TaskState.DRAINING, "it says why it stands still"
            will_end = self.alarms or self.pending_letter or self._is_leaving or replicator.stopped_by
            assert will_end, f"it stands still for good: {progress}"
        if replicator.stopped_by is not None:
            assert replicator.fetch_offset is None
        if self._is_leaving and replicator.is_idle:
            assert not self._awaits_drained, "told that it has drained"

    @property
    def _is_active(self) -> bool:
        replicator = self.replicator
        return bool(
            replicator.fetch_offset is not None
            or replicator.needs_start_offset
            or self._is_listing
            or self._awaits_start
            or replicator.batches_in_flight
            or replicator.can_send(self.now)
            or (replicator.has_unsent and replicator.needs_producer_id)
            or (replicator.has_unsent and self.alarms and min(self.alarms) <= self.now + 1.0)  # backoff
            or self.limit_wanted
            or (self.query is not None and self.query.frames)
        )

    @property
    def is_copied(self) -> bool:
        return self._is_checked and not self._is_leaving and super().is_copied

    def finish(self) -> None:
        if self.reset is OffsetReset.NONE:
            self.reset = OffsetReset.EARLIEST  # the operator changes it
        if self.truncations:
            self.source.append(10)  # otherwise records can be repeated, or be missed, only later
        super().finish()
        for _ in range(100):  # the next fetch response ends what is reported of the source
            progress = self.replicator.progress(self.now, self.now)
            if (progress.state, progress.error) == (TaskState.RUNNING, None):
                break
            self._next_alarm()
            self.step()
        assert (progress.state, progress.error, progress.lag_seconds) == (TaskState.RUNNING, None, 0)
        assert self.held == 0

    # -- the source answers

    def _source_steps(self) -> list[_Step]:
        if self._is_listing:
            return [self._list_offsets]
        if self.replicator.needs_start_offset:
            return [self._list_later]
        starts = [self._store_start] * 2 if self._awaits_start else []
        return [*super()._source_steps(), *starts]

    def _fetch(self) -> None:
        super()._fetch()
        self._asked_epoch = self.replicator.last_fetched_epoch

    def _list_later(self) -> None:
        self._is_listing = True

    def _fetched(self) -> None:
        offset = self.fetches.popleft()
        replicator, source = self.replicator, self.source
        fault = self.rng.random() if self.target.faulty else 1.0
        if fault < 0.04:
            replicator.fetch_delayed("the source's leader has moved", self.now)
            return
        if fault < 0.05:
            replicator.fetch_failed("not authorized to read t", self.now)
            return
        epoch = self._asked_epoch
        if epoch >= 0 and source.start <= offset:
            end = source.end_of(epoch)
            if end.epoch < epoch or end.end_offset < offset:
                replicator.diverged(offset, end, self.now)
                return
        if not source.start <= offset <= source.end:
            self._list_later()
            return
        if offset == replicator.fetch_offset:
            self._is_checked = True
        answer = source.fetch(offset, self.rng.randint(1, self.fetch_bytes))
        if fault < 0.15 and len(answer.records) > HEADER.size:
            answer = answer._replace(records=self._spoilt(answer.records, is_cut=fault < 0.1))
        held = replicator.fetched(offset, answer, source.end, self.now, self.now)
        self.held += held
        if held and self.held >= self.max_held_bytes and not replicator.repeats_next:
            assert replicator.fetch_offset is None, "it is full"

    def _spoilt(self, records: bytes, *, is_cut: bool) -> bytes:
        """Cut the end off, as brokers do, or damage the first batch on its way."""
        if is_cut:
            return records[: self.rng.randrange(len(records))]
        raw = bytearray(records)
        raw[self.rng.randrange(HEADER.size - 4, 12 + HEADER.unpack_from(raw)[1])] ^= 0x55
        return bytes(raw)

    def _list_offsets(self) -> None:
        """ListOffsets and OffsetsForLeaderEpoch are answered, as in `flows.source.fetcher.Fetcher`."""
        self._is_listing = False
        replicator, source = self.replicator, self.source
        offset = replicator.fetch_offset
        self._is_fetch_read = False
        if offset is None and not replicator.needs_start_offset:
            return
        if self.target.faulty and self.rng.random() < 0.1:
            replicator.fetch_delayed("no answer to ListOffsets", self.now)
            return
        epoch = replicator.last_fetched_epoch
        if offset is not None and epoch >= 0:
            if replicator.diverged(offset, source.end_of(epoch), self.now):
                return
            if offset > source.end:
                replicator.fetch_delayed(f"the leader has not reached offset {offset}", self.now)
                return
        self._is_checked = True
        replicator.reset_offset(self.reset, source.start, source.end, self.now)

    # -- events

    def _change(self, change: _Step) -> None:
        """Change records that the target may have without an acknowledgement: they cannot be repeated as they were."""
        if self.replicator.is_uncertain:
            self.is_exact = False
            self.changes_while_uncertain += 1
        change()

    def _grow(self) -> None:
        self.source.append(self.rng.randint(1, 4))

    def _delete(self) -> None:
        self._change(self.source.delete)

    def _compact(self) -> None:
        self._change(self.source.compact)

    def _damage(self) -> None:
        self._change(self.source.damage)

    def _elect(self) -> None:
        self.source.elect()
        self.source.append(self.rng.choice([0, 1, 5]))
        self.fetches.clear()
        self._is_fetch_read = False
        self.truncations += 1
        self.is_exact = self._is_checked = False

    def _next_alarm(self) -> None:
        if self.alarms:
            self.now = max(self.now, min(self.alarms))
            self._fire_alarm()

    def _source_hangs(self) -> None:
        self.replicator.source_unavailable("broker 1 did not answer", prolonged=self.rng.random() < 0.5)
        if self.replicator.fetch_offset is not None and self.rng.random() < 0.5:
            self.replicator.source_available()

    def _target_hangs(self) -> None:
        if self.replicator.batches_in_flight:
            self.replicator.target_unavailable("broker 2 did not answer", prolonged=True)

    def _no_leader(self) -> None:
        if self.replicator.can_send(self.now) and not self.replicator.batches_in_flight:
            self._is_offered = False
            self.replicator.leader_unavailable(from_exception(Unreachable("no leader")), self.now)

    def _is_turn_over(self) -> bool:
        return self.target.faulty and self.rng.random() < 0.5

    def _stop_packing(self) -> None:
        self.replicator.abandon_packing()

    def _store(self) -> None:
        """Store the source offset, as each flush interval does."""
        replicator = self.replicator
        offset = replicator.offset_to_commit
        if offset is not None:
            if self._is_checked:
                self.judge_until(offset + 1)
            replicator.committed(offset)
            self.stored, self._stored_epochs = offset, before(replicator.epochs, offset + 1)

    def _store_start(self) -> None:
        self._awaits_start = False
        self._store()

    def _crash(self) -> None:
        """The lane ends; its successor starts from the stored offset."""
        while self.requests:
            self._process()  # what was sent may still arrive
        self.crashes += 1
        self.is_exact = False
        self.held = 0
        self.answers.clear()
        if self.query is not None:
            self.query.frames.clear()
        start = None if self.stored is None else self.stored + 1
        self._take_over(start, leader_epochs=self._stored_epochs)

    def _leave(self) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            self.replicator.drain(self.now)
            self._awaits_drained = not self.replicator.is_idle

    def _may_move(self) -> bool:
        self._store()
        return self.replicator.offset_to_commit is None or not self.replicator.needs_initial_commit

    def _move(self) -> None:
        """The partition has drained, and its offset is stored: another source task resumes it."""
        assert self.held == 0
        self.is_exact &= not self.replicator.is_uncertain
        lease = self.replicator.lease_to_resume()
        if self._accepts is not None:
            lease = replace(lease, stopped_by=None, accepted_loss=self._accepts)
        self.moves += 1
        self._take_over(
            lease.start_offset,
            leader_epochs=lease.leader_epochs,
            stopped_by=lease.stopped_by,
            accepted_loss=lease.accepted_loss,
        )

    def _take_over(self, start: int | None, **lease: Any) -> None:
        self.limit_wanted = self._is_leaving = self._is_listing = self._is_offered = self._is_fetch_read = False
        self._awaits_start = False
        self.pending_letter = self._accepts = None
        self.alarms.clear()
        self.fetches.clear()
        self.replicator = self.new_replicator(start, **lease)

    def _operate(self) -> None:
        """The operator accepts losses, and skips what cannot be copied."""
        replicator = self.replicator
        if replicator.stopped_by is not None:
            self._accepts = replace(replicator.stopped_by, accepted=True)
            self._leave()
        elif (at := replicator.progress(self.now, self.now).stopped_at) is not None:
            replicator.request_skip(at, self.now)


class FaultyTransactionalWorld(FaultyWorld, TransactionalWorld):
    """The same with transactions: what is stored is stored with the records, so that nothing is ever repeated."""

    target: TransactionalTarget

    @property
    def copied(self) -> list[Record]:
        return self.target.committed

    def step(self) -> None:
        is_late = self._is_leaving or self.rng.random() < 0.02
        if is_late and self.replicator.is_idle and self.transaction is not None:
            if self.replicator.is_uncertain:
                self._abort()  # nothing is repeated any more, or not in time
            else:
                self._commit()
            self.check()
        else:
            super().step()

    def _change(self, change: _Step) -> None:
        self.changes_while_uncertain += self.replicator.is_uncertain
        change()

    def _crash(self) -> None:
        """The successor fences the lane, and aborts its transaction."""
        while self.requests:
            self._process()  # what was sent may still arrive
        self.target.next_epoch()
        self.transaction = None
        self._judge()
        super()._crash()
        self.is_exact = True

    def _store(self) -> None:
        """Offsets are stored by transactions only."""

    def _store_start(self) -> None:
        self._awaits_start = False
        offsets = self.replicator.offsets_to_commit
        self.replicator.transaction_committed(offsets, self.now, self.now)
        self.stored = offsets[-1]

    def _may_move(self) -> bool:
        return self.transaction is None and not self.replicator.needs_commit

    def _judge(self) -> None:
        """Consumers see all records up to the stored offset, and none after it."""
        if self.stored is None:
            return
        there = {record.key for record in self.target.committed}
        required = {one.key for one in self._required(self.begin, self.stored + 1)}
        assert required <= there
        assert all(self.source.ever[key].offset <= self.stored for key in there)
