"""Every record that the source has at the end is on the target, whenever its log loses its end (KIP-320).

The model of the broker follows kafka.cluster.Partition.readRecords and LeaderEpochFileCache.endOffsetFor.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from flows.batch.choice import BatchRules
from mm2.core.lanes.losses import LossKind
from mm2.core.offsets.leader_epochs import EpochEnd
from tests.lab.batches import Batch, Record, sealed
from tests.lab.examples import examples
from tests.property.flows.model import World, contents
from tests.property.flows.model_partitions import Source, Target


@dataclass
class Log:
    """The batches of a source partition, with the leader epoch of each."""

    rng: random.Random
    batches: list[tuple[int, Batch]] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)  # (epoch, its first offset)
    end: int = 0
    written: int = 0

    def append(self, count: int) -> None:
        for _ in range(count):
            records = []
            for _ in range(self.rng.choice([1, 2, 7])):
                self.written += 1
                records.append(Record(self.end, 1_700_000_000_000, b"%d" % self.written, b"x" * 50))
                self.end += 1
            self.batches.append((self.epochs[-1][0], Batch(records=records)))

    def elect(self, lost: int) -> None:
        """Elect another leader, which does not have the last ``lost`` batches."""
        epoch = self.epochs[-1][0] + 1 if self.epochs else 0
        if lost:
            del self.batches[-lost:]
            self.end = self.batches[-1][1].records[-1].offset + 1 if self.batches else 0
        self.epochs = [(one, start) for one, start in self.epochs if start < self.end]
        self.epochs.append((epoch, self.end))

    def source(self) -> Source:
        source = Source([batch for _, batch in self.batches] or [Batch(records=[], base_offset=0, next_offset=0)])
        source.blobs = [
            ((*fields[:2], epoch, *fields[3:]), sealed(bytearray(raw), (*fields[:2], epoch, *fields[3:])))
            for (epoch, _), (fields, raw) in zip(self.batches, source.blobs, strict=False)
        ]
        source.end = self.end
        return source

    def end_of(self, epoch: int) -> EpochEnd:
        if epoch == self.epochs[-1][0]:
            return EpochEnd(epoch, self.end)
        following = next((start for one, start in self.epochs if one > epoch), None)
        assert following is not None, "a later epoch than the leader's was fetched"
        return EpochEnd(max([one for one, _ in self.epochs if one <= epoch], default=epoch), following)


class TruncatedWorld(World):
    """A source task whose source is truncated at random times."""

    def __init__(self, log: Log, target: Target, rng: random.Random, **options: Any) -> None:
        super().__init__(log.source(), target, rng, rules=BatchRules(tiny_bytes=rng.choice([0, 200])), **options)
        self.log = log
        self.truncations: list[int] = []  # the offsets from which on records were lost
        self.is_checked = True  # the position, since the last election

    def truncated(self, replicator: object, offset: int) -> None:
        self.truncations.append(offset)
        self.journal.truncated(offset)
        assert self.replicator.offset_to_commit is not None
        assert self.replicator.offset_to_commit < offset
        assert self.replicator.needs_initial_commit

    def truncate(self) -> None:
        self.log.elect(self.rng.choice([0, 1, 3, 10]) if self.log.batches else 0)
        self.log.append(self.rng.choice([0, 1, 5, 20]))
        self.source = self.log.source()
        self.fetches.clear()
        self.is_checked = False

    @property
    def is_copied(self) -> bool:
        return self.is_checked and super().is_copied

    def _fetched(self) -> None:
        offset = self.fetches.popleft()
        replicator = self.replicator
        epoch = replicator.last_fetched_epoch
        if offset != replicator.fetch_offset:
            return
        if epoch >= 0:
            end = self.log.end_of(epoch)
            if end.epoch < epoch or end.end_offset < offset:
                assert replicator.diverged(offset, end, self.now)
                return
        assert offset <= self.log.end, f"offset {offset} of epoch {epoch} is out of range: {self.log.epochs}"
        self.is_checked = True
        answer = self.source.fetch(offset, self.rng.randint(1, self.fetch_bytes))
        held = replicator.fetched(offset, answer, self.source.end, self.now, self.now)  # can release bytes
        self.held += held


def last_copies(world: World, keys: Sequence[bytes | None]) -> list[int]:
    places = {record.key: at for at, record in enumerate(world.target.records)}
    return [places[key] for key in keys]


@example(seed=473)  # a loss continues the one before: they are reported as one
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(300))
def test_every_record_of_the_truncated_log_is_copied(seed: int) -> None:
    rng = random.Random(seed)
    log = Log(rng)
    log.elect(0)
    log.append(20)
    world = TruncatedWorld(log, Target(rng, max_bytes=1_000_000), rng)
    for _ in range(rng.randint(1, 6)):
        world.run(rng.choice([10, 100, 300]))
        world.truncate()
    log.append(30)  # a batch that the target may have is repeated when the source has all of its offsets again
    world.source = log.source()
    world.finish()
    source = [record for _, batch in log.batches for record in batch.records]
    copied = contents(world.target.records)
    assert set(contents(source)) <= set(copied)
    in_target = last_copies(world, [record.key for record in source])
    assert in_target == sorted(in_target), "the last copies are in the order of the source"
    assert world.held == 0
    losses = [loss for loss in world.replicator.losses if loss.kind == LossKind.TRUNCATED]
    unreported = [at for at in world.truncations if not any(loss.first <= at < loss.until for loss in losses)]
    assert unreported == []
    remaining = {record.key for record in source}
    extra = [record for record in world.target.records if record.key not in remaining]
    assert not extra or losses, "records that the source does not have are reported"
