"""Records that pass through a query: what it keeps arrives once and in order, whatever fails, and nothing else does."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from flows.batch.choice import BatchRules
from mm2.core.lanes.losses import LossKind
from tests.lab.batches import Batch, sealed
from tests.lab.examples import examples
from tests.property.flows.model import World, contents
from tests.property.flows.model_partitions import Source, Target
from tests.property.flows.model_query import ModelQuery
from tests.property.flows.test_copy import judge_map, random_log
from tests.property.flows.test_truncation import Log, TruncatedWorld, last_copies
from tests.property.flows.transactional import TransactionalTarget, TransactionalWorld

seeds = st.integers(0, 2**32 - 1)


class SkippingWorld(World):
    """An operator skips what stops the partition, some time later."""

    skips: list[int]

    def step(self) -> None:
        if self.rng.random() < 0.2:
            self._skip()
        super().step()

    def _skip(self) -> None:
        at = self.replicator.progress(self.now, self.now).stopped_at
        if at is None or (self.skips and self.skips[-1] == at):
            return
        assert self.query is not None
        assert self.replicator.position == at
        before = [record for record in self.source.records if record.offset < at]
        assert contents(self.target.records) == self.expected(before), "everything before it is copied"
        self.skips.append(at)
        self.replicator.request_skip(at, self.now)


def frame_bytes(rng: random.Random) -> int:
    """Frames of one batch, of a few, or of a whole response."""
    return rng.choice([0, 1_000, 100_000])


def options(rng: random.Random, **chosen: int) -> dict[str, object]:
    rules = BatchRules(tiny_bytes=rng.choice([0, 200, 2_000]), merged_bytes=rng.choice([500, 5_000]))
    return {
        "rules": rules,
        "query": ModelQuery(rng, rules=rules, **chosen),
        "max_held_bytes": rng.choice([3_000, 20_000]),
        "frame_bytes": frame_bytes(rng),
    }


def world(rng: random.Random, *, kind: type[World] = World, **given: object) -> World:
    target = Target(rng, max_bytes=rng.choice([1_000, 5_000, 1_000_000]), forgetful=bool(given.pop("forgetful", False)))
    failing = given.pop("failing", 0)
    assert isinstance(failing, int)
    return kind(Source(random_log(rng)), target, rng, **options(rng, failing=failing), **given)  # type: ignore[arg-type]


def query_of(play: World) -> ModelQuery:
    assert play.query is not None
    return play.query


def judge_map_of_survivors(play: World, *, exact: bool) -> None:
    """Check the journal: a position at a dropped record is translated to the next one that is kept."""
    kept = {record.offset for record in query_of(play).results(play.source.records)}
    play.source.records[:] = [record for record in play.source.records if record.offset in kept]
    if kept:  # otherwise there is nothing on the target
        judge_map(play, exact=exact)


def corrupt(source: Source, rng: random.Random) -> list[Batch]:
    """Let the records of some batches be invalid for their codec, and return these batches."""
    chosen = []
    for index, (fields, raw) in enumerate(source.blobs):
        if rng.random() < 0.1:
            fields = (*fields[:5], (fields[5] & ~7) | 1, *fields[6:])  # noqa: PLW2901
            source.blobs[index] = fields, sealed(bytearray(raw), fields)
            chosen.append(source.log[index])
    gone = {record.offset for batch in chosen for record in batch.records}
    source.records[:] = [record for record in source.records if record.offset not in gone]
    return chosen


@given(seed=seeds)
@settings(max_examples=examples(20))
def test_every_record_that_is_kept_arrives_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    play = world(rng)
    play.run(400)
    play.finish()
    assert contents(play.target.records) == play.expected(play.source.records)
    assert (play.held, play.replicator.position) == (0, play.source.end)
    by_offset = {record.offset: record for record in query_of(play).results(play.source.records)}
    for first, base, count in play.acknowledged_runs:
        for index in range(count):
            assert play.target.records[base + index][1:] == by_offset[first + index][1:]
    judge_map_of_survivors(play, exact=True)


@given(seed=seeds, forgetful=st.booleans())
@settings(max_examples=examples(12))
def test_nothing_is_lost_or_reordered_if_batches_are_appended_twice(seed: int, *, forgetful: bool) -> None:
    rng = random.Random(seed)
    play = world(rng, forgetful=forgetful, idempotent=forgetful)
    play.run(400)
    play.finish()
    assert list(dict.fromkeys(contents(play.target.records))) == play.expected(play.source.records)
    assert play.held == 0
    judge_map_of_survivors(play, exact=False)


@given(seed=seeds)
@settings(max_examples=examples(10))
def test_what_the_query_returns_is_written_with_a_codec_that_the_target_supports(seed: int) -> None:
    rng = random.Random(seed)
    play = world(rng)
    log = [
        Batch(records=one.records, base_offset=one.base_offset, codec=4, next_offset=one.next_offset)
        for one in play.source.log
    ]
    play.source, play.target.unsupported = Source(log), 4
    play.run(400)
    play.finish()
    assert contents(play.target.records) == play.expected(play.source.records)
    assert play.held == 0


@given(seed=seeds)
@settings(max_examples=examples(12))
def test_records_for_which_the_query_fails_become_dead_letters(seed: int) -> None:
    rng = random.Random(seed)
    play = world(rng, failing=rng.choice([1, 10, 50]), dead_letters="letters")
    query = query_of(play)
    unreadable = corrupt(play.source, rng)
    play.run(400)
    play.finish()
    assert contents(play.target.records) == play.expected(play.source.records)
    failed = [record for record in play.source.records if query.fails(record.key)]
    assert [(one.first, one.record.key) for one in play.letters if one.record is not None] == [
        (record.offset, record.key) for record in failed
    ]
    batches = [one for one in play.letters if one.record is None]
    assert [(one.first, one.until) for one in batches] == [(one.base_offset, one.next_offset) for one in unreadable]
    assert play.held == 0
    assert {loss.kind for loss in play.replicator.losses} <= {LossKind.DEAD_LETTER}
    judge_map_of_survivors(play, exact=True)


@given(seed=seeds)
@settings(max_examples=examples(12))
def test_a_record_for_which_the_query_fails_stops_the_partition_until_it_is_skipped(seed: int) -> None:
    rng = random.Random(seed)
    play = world(rng, kind=SkippingWorld, failing=rng.choice([1, 10]))
    assert isinstance(play, SkippingWorld)
    play.skips = []
    query = query_of(play)
    play.run(400)
    play.finish()
    assert contents(play.target.records) == play.expected(play.source.records)
    failed = [record.offset for record in play.source.records if query.fails(record.key)]
    assert [at for at in play.skips if at in failed] == failed
    assert {loss.kind for loss in play.replicator.losses} <= {LossKind.SKIPPED}
    assert play.held == 0


@given(seed=seeds)
@settings(max_examples=examples(12))
def test_drain_drops_what_is_in_the_query(seed: int) -> None:
    rng = random.Random(seed)
    play = world(rng)
    play.run(200)
    play.replicator.drain(play.now)
    play.target.faulty = False
    play.target.rejects_all = 0
    for _ in range(5_000):
        if play.replicator.is_idle:
            break
        play.step()
    assert (play.replicator.is_idle, play.held) == (True, 0)
    copied = play.expected([record for record in play.source.records if record.offset < play.replicator.position])
    there = contents(play.target.records)
    assert there[: len(copied)] == copied
    assert there == play.expected(play.source.records)[: len(there)]


@given(seed=seeds)
@settings(max_examples=examples(20))
def test_committed_records_are_those_that_the_query_keeps_up_to_the_stored_offset(seed: int) -> None:
    rng = random.Random(seed)
    target = TransactionalTarget(rng, max_bytes=rng.choice([1_000, 5_000, 1_000_000]), forgetful=rng.random() < 0.3)
    chosen = options(rng, failing=rng.choice([0, 0, 10]))
    play = TransactionalWorld(Source(random_log(rng)), target, rng, **chosen, dead_letters="letters")
    play.run(600)
    play.finish()
    assert contents(play.target.committed) == play.expected(play.source.records)
    failed = {record.key for record in play.source.records if query_of(play).fails(record.key)}
    assert {one.record.key for one in play.letters if one.record is not None} == failed
    assert play.held == 0


@given(seed=seeds)
@settings(max_examples=examples(20))
def test_what_the_query_keeps_of_a_truncated_log_is_copied(seed: int) -> None:
    rng = random.Random(seed)
    log = Log(rng)
    log.elect(0)
    log.append(20)
    query = ModelQuery(rng, failing=rng.choice([0, 10]))
    play = TruncatedWorld(
        log, Target(rng, max_bytes=1_000_000), rng, query=query, dead_letters="letters", frame_bytes=frame_bytes(rng)
    )
    for _ in range(rng.randint(1, 6)):
        play.run(rng.choice([10, 100, 300]))
        play.truncate()
    log.append(30)
    play.source = log.source()
    play.finish()
    source = [record for _, batch in log.batches for record in batch.records]
    assert set(play.expected(source)) <= set(contents(play.target.records))
    in_target = last_copies(play, [record.key for record in query.results(source)])
    assert in_target == sorted(in_target), "the last copies are in the order of the source"
    assert {record.key for record in source if query.fails(record.key)} <= {
        one.record.key for one in play.letters if one.record is not None
    }
    assert play.held == 0
    written = [one.record.key for one in play.letters if one.record is not None]
    assert len(written) == len(set(written)) or play.truncations, "a record becomes a dead letter once"
    remaining = {record.key for record in source}
    losses = [loss for loss in play.replicator.losses if loss.kind == LossKind.TRUNCATED]
    assert losses or not [record for record in play.target.records if record.key not in remaining]
