"""`flows.partition.replicator` delivers every record once and in order, whatever fails between source and target."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from flows.batch.choice import BatchRules
from mm2.core.lanes.losses import LossKind
from mm2.core.offsets.exact_offsets import Found, PartitionOffsets
from tests.lab.batches import Batch, Record
from tests.lab.examples import examples
from tests.property.flows.model import World, contents
from tests.property.flows.model_partitions import Source, Target

seeds = st.integers(0, 2**32 - 1)


def random_log(rng: random.Random) -> list[Batch]:
    """Return batches of any size; records contain their position, so that loss, repetition and reordering show."""
    at = rng.randint(0, 50)
    log: list[Batch] = []
    for _ in range(rng.randint(1, 40)):
        records = []
        base = at
        holes = rng.random() < 0.2
        for _ in range(rng.choice([1, 1, 2, 5, 50])):
            at += rng.randint(0, 2) if holes else 0
            records.append(Record(at, 1_700_000_000_000 + at, b"k%d" % at, rng.randbytes(rng.choice([0, 10, 300]))))
            at += 1
        log.append(Batch(records=records, base_offset=base, codec=rng.choice([0, 0, 3]), next_offset=at))
        at += rng.choice([0, 0, 0, 3])
    return log


def judge_map(play: World, *, exact: bool) -> None:
    """Check the journal: no source position is translated beyond a record that it has not read.

    ``exact``: no record was repeated, so each position is translated to its own record or to the next one, unless
    nothing was copied.
    """
    partition = PartitionOffsets()
    for number, segment in enumerate(play.journal.unwritten()):
        partition.apply(segment, number)
    places: dict[bytes | None, list[int]] = {}
    for at, record in enumerate(play.target.records):
        places.setdefault(record.key, []).append(at)
    latest = len(play.target.records)
    following = latest
    records = list(play.source.records)
    for upstream in range(play.source.end, -1, -1):
        if records and records[-1].offset == upstream:
            copies = places[records.pop().key]
            following, latest = copies[0], min(latest, copies[-1])
        place = partition.look_up(upstream)
        if exact and places:
            assert isinstance(place, Found)
            assert place.offset == following
        assert (place.offset if isinstance(place, Found) else place.least or 0) <= latest


def world(seed: int, **options: object) -> World:
    rng = random.Random(seed)
    target = Target(
        rng, max_bytes=rng.choice([1_000, 5_000, 1_000_000]), forgetful=bool(options.pop("forgetful", False))
    )
    rules = BatchRules(tiny_bytes=rng.choice([0, 200, 2_000]), merged_bytes=rng.choice([500, 5_000]))
    return World(Source(random_log(rng)), target, rng, rules=rules, **options)  # type: ignore[arg-type]


@given(seed=seeds)
@settings(max_examples=examples(300))
def test_every_record_arrives_once_and_in_order(seed: int) -> None:
    play = world(seed)
    play.run(400)
    play.finish()
    assert contents(play.target.records) == contents(play.source.records)
    assert play.held == 0
    judge_map(play, exact=True)
    by_offset = {record.offset: record for record in play.source.records}
    for first, base, count in play.acknowledged_runs:  # the acknowledged offsets are those of the records
        for index in range(count):
            assert play.target.records[base + index][1:] == by_offset[first + index][1:]


@given(seed=seeds)
@settings(max_examples=examples(150))
def test_every_record_arrives_once_and_in_order_if_the_target_does_not_support_a_codec(seed: int) -> None:
    play = world(seed)
    log = [replace(batch, codec=4) if batch.codec else batch for batch in play.source.log]
    play.source, play.target.unsupported = Source(log), 4
    play.run(400)
    play.finish()
    assert contents(play.target.records) == contents(play.source.records)
    assert play.held == 0
    judge_map(play, exact=True)


@given(seed=seeds)
@example(seed=1857005)  # a batch can be acknowledged before its own repetition ends
@settings(max_examples=examples(150))
def test_nothing_is_lost_or_reordered_if_the_target_drops_producer_state(seed: int) -> None:
    play = world(seed, forgetful=True)
    play.run(400)
    play.finish()
    wanted = contents(play.source.records)
    first_seen = list(dict.fromkeys(contents(play.target.records)))
    assert first_seen == wanted
    assert play.held == 0
    judge_map(play, exact=False)


@given(seed=seeds)
@settings(max_examples=examples(100))
def test_nothing_is_lost_or_reordered_without_idempotence(seed: int) -> None:
    play = world(seed, idempotent=False)
    play.run(400)
    play.finish()
    assert list(dict.fromkeys(contents(play.target.records))) == contents(play.source.records)
    judge_map(play, exact=False)


@given(seed=seeds)
@settings(max_examples=examples(100))
def test_drain_ends_with_every_batch_discarded_or_acknowledged(seed: int) -> None:
    play = world(seed)
    play.run(200)
    play.replicator.drain(play.now)
    idle_before = play.replicator.is_idle
    play.target.faulty = False
    play.target.rejects_all = 0
    for _ in range(5_000):
        if play.replicator.is_idle:
            break
        play.step()
    assert play.replicator.is_idle
    assert idle_before or play.drained_partitions, "the source task waits for the drain"
    assert play.held == 0
    copied = [record for record in play.source.records if record.offset < play.replicator.position]
    there = contents(play.target.records)
    assert there[: len(copied)] == contents(copied)
    assert there == contents(play.source.records)[: len(there)], "the target has more only if a response was lost"
    assert play.replicator.offset_to_commit == (copied[-1].offset if copied else None)


@example(seed=1570, names_refused=False)  # the only record is refused
@given(seed=seeds, names_refused=st.booleans())
@settings(max_examples=examples(200))
def test_only_refused_records_are_left_out_and_they_become_dead_letters(seed: int, *, names_refused: bool) -> None:
    """The rest arrives once and in order, and offsets translate to the record that follows a left-out one."""
    play = world(seed, dead_letters="letters")
    chosen = random.Random(seed)
    refused = frozenset(record.key for record in play.source.records if chosen.random() < 0.1)
    play.target.refused, play.target.names_refused = refused, names_refused
    play.run(400)
    play.finish()
    surviving = [record for record in play.source.records if record.key not in refused]
    assert contents(play.target.records) == contents(surviving)
    assert [one.record.key for one in play.letters if one.record is not None] == [
        record.key for record in play.source.records if record.key in refused
    ]
    lost = [offset for loss in play.replicator.losses for offset in range(loss.first, loss.until)]
    assert lost == [one.first for one in play.letters]
    assert {loss.kind for loss in play.replicator.losses} <= {LossKind.DEAD_LETTER}
    play.source.records[:] = surviving
    judge_map(play, exact=True)
