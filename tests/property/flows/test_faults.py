"""Whatever happens to source, target and lane: when it is over, everything is copied in order, or reported."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from flows.batch.choice import BatchRules
from mm2.core.lanes.losses import LossKind, LossPolicy, OnDataLoss
from mm2.core.settings.client import OffsetReset
from tests.lab.examples import examples
from tests.property.flows.model_faults import FaultyTransactionalWorld, FaultyWorld
from tests.property.flows.model_partitions import Target
from tests.property.flows.model_query import ModelQuery
from tests.property.flows.model_source import ChangingSource
from tests.property.flows.transactional import TransactionalTarget

seeds = st.integers(0, 2**32 - 1)

ALWAYS = ("grow", "grow", "next_alarm", "source_hangs", "target_hangs", "no_leader", "stop_packing", "store", "leave")
CHANGES = ("delete", "compact", "damage")


def world(
    seed: int,
    events: Sequence[str] = (),
    *,
    kind: type[FaultyWorld] = FaultyWorld,
    is_queried: bool = False,
    **chosen: object,
) -> FaultyWorld:
    """``events`` happen besides `ALWAYS`; ``chosen``: options instead of random ones."""
    rng = random.Random(seed)
    epoch = 3 if "elect" in events else rng.choice([-1, 3])  # without epochs a truncation can remain unnoticed
    source = ChangingSource(rng, read_committed=rng.random() < 0.7, epoch=epoch, start=rng.choice([0, 40]))
    source.append(10)
    of_target = TransactionalTarget if kind is FaultyTransactionalWorld else Target
    target = of_target(rng, max_bytes=rng.choice([5_000, 1_000_000]), more_faults=rng.random() < 0.3)
    rules = BatchRules(tiny_bytes=rng.choice([0, 200, 2_000]), merged_bytes=rng.choice([500, 5_000]))
    options: dict[str, object] = {
        "start": rng.choice([0, source.start, None]),
        "reset": rng.choice(list(OffsetReset)),
        "rules": rules,
        "max_held_bytes": rng.choice([3_000, 20_000]),
        "dead_letters": rng.choice([None, "letters"]),
        "policy": LossPolicy(on_data_loss=rng.choice([OnDataLoss.CONTINUE, OnDataLoss.STOP_PARTITION])),
        "query": ModelQuery(rng, failing=rng.choice([0, 10]), rules=rules) if is_queried else None,
    }
    play = kind(source, target, rng, events=[*ALWAYS, *events], **(options | chosen))  # type: ignore[arg-type]
    if not is_queried:
        target.refused = frozenset(record.key for record in source.records if rng.random() < 0.05)
    target.names_refused = rng.random() < 0.5
    return play


def finished(play: FaultyWorld, steps: int = 400) -> FaultyWorld:
    play.run(steps)
    play.finish()
    play.judge(play.copied)
    return play


@given(seed=seeds)
@settings(max_examples=examples(300))
def test_everything_is_copied_once_in_order_or_reported(seed: int) -> None:
    """Nothing has to be repeated, unless the source changes what the target may have."""
    finished(world(seed, CHANGES[: seed % 4]))


@given(seed=seeds)
@settings(max_examples=examples(200))
def test_everything_is_copied_in_order_or_reported_after_crashes(seed: int) -> None:
    finished(world(seed, ["crash", *CHANGES[: seed % 4]]))


@given(seed=seeds, crash=st.booleans())
@settings(max_examples=examples(200))
def test_everything_is_copied_or_reported_after_leaders_that_lack_records(seed: int, crash: bool) -> None:
    """Except where leader epochs are unknown: behind a damaged batch, and after `latest`."""
    events = ["elect", *CHANGES[: seed % 3], *(["crash"] if crash else [])]
    finished(world(seed, events, reset=OffsetReset.EARLIEST, is_queried=seed % 5 == 0))


@given(seed=seeds)
@settings(max_examples=examples(150))
def test_everything_is_committed_once_in_order_or_reported(seed: int) -> None:
    finished(world(seed, CHANGES[: seed % 4], kind=FaultyTransactionalWorld))


@given(seed=seeds)
@settings(max_examples=examples(30))
def test_what_a_query_keeps_is_copied_in_order_or_reported(seed: int) -> None:
    finished(world(seed, CHANGES[: seed % 4], is_queried=True))


def test_the_model_reaches_every_case() -> None:
    plays = [finished(world(seed, ["crash", *CHANGES])) for seed in range(30)]
    kinds = {loss.kind for play in plays for loss in play.losses.values()}
    assert kinds >= {LossKind.RETENTION, LossKind.SKIPPED, LossKind.DEAD_LETTER}
    assert min(sum(play.moves for play in plays), sum(play.crashes for play in plays)) > 30
    assert sum(play.changes_while_uncertain for play in plays) > 30
