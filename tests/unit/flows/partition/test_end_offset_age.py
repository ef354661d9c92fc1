"""An end offset that the source has not told for ten seconds is not known any more: `PartitionState` (G)."""

from __future__ import annotations

import pytest

from flows.partition.replicator import PartitionReplicator
from flows.partition.state import END_OFFSET_VALID_S, SourceAnswers
from tests.unit.flows.replicators import WALL, arrive, data, fetched, partition, send

BEFORE, AFTER = END_OFFSET_VALID_S - 0.01, END_OFFSET_VALID_S


def caught_up(now: float = 0.0) -> PartitionReplicator:
    replicator, _ = partition()
    arrive(replicator, end=0, now=now)
    return replicator


def observed(replicator: PartitionReplicator, now: float) -> float | None:
    return replicator.progress(now, WALL + now).end_observed


@pytest.mark.parametrize("first", [0.0, 5.0])
def test_it_is_unknown_ten_seconds_after_the_last_answer(first: float) -> None:
    replicator = caught_up(first)
    key = replicator.progress_key(first)
    assert observed(replicator, first + BEFORE) is None
    assert replicator.progress_key(first + BEFORE) == key
    assert observed(replicator, first + AFTER) == pytest.approx(WALL + first)
    assert replicator.progress_key(first + AFTER) != key, "that it is unknown is reported"
    assert replicator.progress(first + AFTER, WALL).end_offset == 0, "the last known one"
    replicator.source_grew(0, first + 20)
    assert observed(replicator, first + 20) is None
    assert replicator.progress_key(first + 20) == key


def test_a_lag_is_unknown_too() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 5), end=5)
    assert observed(replicator, BEFORE) is None
    assert observed(replicator, AFTER) == pytest.approx(WALL)


def test_without_any_end_offset_there_is_no_last_one() -> None:
    replicator, _ = partition()
    assert observed(replicator, 1_000.0) is None
    assert replicator.progress(1_000.0, WALL).end_offset == -1


def test_one_answer_observes_a_thousand_idle_partitions_of_the_session() -> None:
    """Nothing is done or reported for them."""
    answers = SourceAnswers()
    idle = [caught_up() for _ in range(1_000)]
    for one in idle:
        one.join_session(answers, 0.0)
    keys = {one.progress_key(0.0) for one in idle}
    for second in range(1, 3_600):
        answers.last = float(second)
    assert {one.progress_key(3_599.0 + BEFORE) for one in idle} == keys
    assert all(observed(one, 3_599.0 + BEFORE) is None for one in idle)
    assert all(observed(one, 3_599.0 + AFTER) == pytest.approx(WALL + 3_599) for one in idle), "the source hangs"


def test_answers_from_before_it_joined_do_not_count() -> None:
    replicator, answers = caught_up(), SourceAnswers(last=30.0)
    replicator.join_session(answers, 31.0)
    assert observed(replicator, 31.0) == pytest.approx(WALL)
    answers.last = 32.0
    assert observed(replicator, 32.0) is None


def test_answers_after_it_left_do_not_count() -> None:
    """As while the target delays it, or after an error of this partition only."""
    replicator, answers = caught_up(), SourceAnswers()
    replicator.join_session(answers, 0.0)
    answers.last = 5.0
    replicator.leave_session()
    answers.last = 100.0
    assert replicator.end_observed_at == 5.0
    replicator.join_session(answers, 100.0)
    assert replicator.end_observed_at == 5.0


def test_another_broker_observes_it_with_its_own_answers() -> None:
    replicator, former, leader = caught_up(), SourceAnswers(), SourceAnswers()
    replicator.join_session(former, 0.0)
    former.last = 4.0
    replicator.join_session(leader, 6.0)
    former.last = 8.0
    assert replicator.end_observed_at == 4.0
    leader.last = 9.0
    assert replicator.end_observed_at == 9.0


def test_the_end_offset_of_an_outdated_response_counts() -> None:
    """The fetch session does not send it again while it is unchanged."""
    replicator, _ = partition()
    arrive(replicator, data(0, 5), end=5)
    asked = replicator.fetch_offset
    assert asked == 5
    replicator.drain(0.0)
    assert replicator.fetched(asked, fetched(data(5, 2)), 7, 3.0, WALL) == 0
    assert (replicator.end_offset, replicator.end_observed_at) == (7, 3.0)
    assert send(replicator) == [], "its records do not"
