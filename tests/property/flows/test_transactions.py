"""Exactly once: read_committed consumers see every record once and in order, up to the stored offset at any time."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from flows.batch.choice import BatchRules
from tests.lab.examples import examples
from tests.property.flows.model import contents
from tests.property.flows.model_partitions import Source
from tests.property.flows.test_copy import random_log
from tests.property.flows.transactional import TransactionalTarget, TransactionalWorld

seeds = st.integers(0, 2**32 - 1)


def world(seed: int, *, dead_letters: str | None = None) -> TransactionalWorld:
    rng = random.Random(seed)
    target = TransactionalTarget(rng, max_bytes=rng.choice([1_000, 5_000, 1_000_000]), forgetful=rng.random() < 0.3)
    rules = BatchRules(tiny_bytes=rng.choice([0, 200, 2_000]), merged_bytes=rng.choice([500, 5_000]))
    return TransactionalWorld(Source(random_log(rng)), target, rng, rules=rules, dead_letters=dead_letters)


@given(seed=seeds)
@settings(max_examples=examples(200))
def test_committed_records_are_those_up_to_the_stored_offset(seed: int) -> None:
    play = world(seed)
    play.run(600)
    play.finish()
    assert contents(play.target.committed) == contents(play.source.records)
    assert play.held == 0


@given(seed=seeds, names_refused=st.booleans())
@settings(max_examples=examples(100))
def test_only_refused_records_are_left_out_and_the_others_are_committed(seed: int, *, names_refused: bool) -> None:
    play = world(seed, dead_letters="letters")
    chosen = random.Random(seed)
    refused = frozenset(record.key for record in play.source.records if chosen.random() < 0.1)
    play.target.refused, play.target.names_refused = refused, names_refused
    play.run(600)
    play.finish()
    surviving = [record for record in play.source.records if record.key not in refused]
    assert contents(play.target.committed) == contents(surviving)
    assert {one.record.key for one in play.letters if one.record is not None} == refused
    assert play.held == 0


def test_the_model_reaches_every_case() -> None:
    """Commits, aborts and crashes all occur, many of them in transactions with records."""
    commits = aborts = crashes = 0
    for seed in range(30):
        play = world(seed)
        play.run(600)
        commits, aborts, crashes = commits + play.commits, aborts + play.aborts, crashes + play.crashes
    assert min(commits, aborts, crashes) > 30
