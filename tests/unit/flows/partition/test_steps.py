"""What a partition does on each side, why, and the story that it tells: (J) of `PartitionState`."""

from __future__ import annotations

import re

import pytest

from flows.batch.target_batch import ProducerId
from flows.partition.frames_in_query import FrameResult
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import SourceAnswers
from flows.partition.steps import FETCH_TRANSITIONS, InvariantError
from flows.partition.timeouts import TIMEOUTS
from flows.target.produce_errors import ErrorAction, ProduceError, from_response
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossKind, LossPolicy, OnDataLoss
from mm2.core.lanes.partition_steps import EVENTS_KEPT, FetchStep, SendStep
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.core.settings.client import OffsetReset
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.unit.flows.queried import queried
from tests.unit.flows.replicators import WALL, RecordingListener, arrive, data, partition, replicator_of, send

RETRY = ProduceError(action=ErrorAction.RETRY, message="broker 2 is restarting", maybe_appended=False)
REFUSED = from_response(ErrorCode.INVALID_RECORD, "bad record", [(0, "no key")])


def steps(replicator: PartitionReplicator, now: float = 0.0) -> tuple[FetchStep, SendStep]:
    return replicator.fetch_step, replicator.send_step(now)


def story(replicator: PartitionReplicator, now: float = 0.0) -> list[str]:
    replicator.validate()
    return [event.text for event in replicator.take_events(now, WALL)]


def test_a_partition_without_problems_has_no_story() -> None:
    replicator, _ = partition()
    assert steps(replicator) == (FetchStep.FETCHING, SendStep.IDLE)
    arrive(replicator, data(0, 5))
    assert steps(replicator) == (FetchStep.FETCHING, SendStep.READY)
    (entry,) = send(replicator)
    assert steps(replicator) == (FetchStep.FETCHING, SendStep.IN_FLIGHT)
    replicator.acknowledged(entry, 0, 0.0, WALL)
    assert (replicator.why_not_fetching(0.0), replicator.why_not_sending(0.0), story(replicator)) == (None, None, [])


def test_a_full_partition_waits_for_the_target() -> None:
    replicator, _ = partition(max_held_bytes=1)
    arrive(replicator, data(0))
    assert replicator.fetch_step is FetchStep.FULL
    why = replicator.why_not_fetching(0.0)
    assert (why, story(replicator)) == (
        "the partition holds as many bytes as it may until the target acknowledges some",
        [],
    ), "filling up is no event"


def test_a_limit_is_waited_for_while_the_source_has_more() -> None:
    """The same object tells it to all partitions of the fetch session."""
    replicator, _ = partition(max_held_bytes=10_000)
    answers = SourceAnswers(limited_to=250_000)
    replicator.join_session(answers, 0.0)
    arrive(replicator, data(0, 5), end=5)
    assert steps(replicator) == (FetchStep.FETCHING, SendStep.READY), "it has everything"
    arrive(replicator, data(5, 5), end=100)
    assert steps(replicator) == (FetchStep.LIMITED, SendStep.READY)
    assert replicator.fetch_offset == 10
    why = "limited by mm2.max.bytes.per.second: the source task's share is 250,000 bytes/s"
    assert (replicator.why_not_fetching(0.0), story(replicator)) == (why, []), "a limit is no event"
    fetching = replicator.progress(1.0, WALL).fetching
    assert fetching is not None
    assert (fetching.step, fetching.reason) == (FetchStep.LIMITED, why)
    answers.limited_to = None
    assert (steps(replicator)[0], replicator.why_not_fetching(0.0)) == (FetchStep.FETCHING, None)
    answers.limited_to = 1
    replicator.drain(2.0)
    assert steps(replicator)[0] is FetchStep.DRAINING


def test_the_start_is_chosen_and_stored_first() -> None:
    replicator, _ = partition(None)
    assert replicator.fetch_step is FetchStep.AWAITS_START
    assert "no offset is stored" in str(replicator.why_not_fetching(0.0))
    replicator.reset_offset(OffsetReset.EARLIEST, 40, 50, 0.0)
    arrive(replicator, data(40))
    assert steps(replicator) == (FetchStep.FETCHING, SendStep.AWAITS_START_STORED)
    assert replicator.why_not_sending(0.0) == "the chosen start, offset 40, is not stored yet"
    replicator.committed(39)
    assert replicator.send_step(0.0) is SendStep.READY
    assert story(replicator) == [], "nothing besides the start"
    replicator.drain(0.0)
    assert story(replicator)[0] == "started at offset 40, as no offset is stored"


def test_a_pause_says_why_and_how_long() -> None:
    replicator, listener = partition()
    replicator.fetch_delayed("broker 1 is not the leader", 10.0)
    assert replicator.fetch_step is FetchStep.PAUSED
    assert re.fullmatch(r"broker 1 is not the leader; next attempt in 0\.\d s", str(replicator.why_not_fetching(10.0)))
    replicator.wake(10.0 + listener.pauses[0])
    assert steps(replicator)[0] is FetchStep.FETCHING


def test_the_same_failure_is_told_once_and_so_is_its_end() -> None:
    replicator, listener = partition()
    for second in range(30):
        replicator.fetch_delayed("broker 1 is not the leader", float(second))
        replicator.wake(second + listener.pauses[-1])
    arrive(replicator, data(0), now=30.0)
    replicator.fetch_delayed("broker 1 is not the leader", 31.0)
    failed = "fetching: PAUSED: broker 1 is not the leader"
    events = replicator.take_events(31.0, WALL)
    assert [(event.at, event.text) for event in events] == [
        (WALL - 31, failed),
        (WALL - 1, "fetching resumed"),
        (WALL, failed),
    ]
    assert {(event.topic, event.partition) for event in events} == {("orders", 3)}
    assert replicator.take_events(32.0, WALL + 1) == [], "each is reported once"
    report = replicator.progress(31.0, WALL)
    assert report.fetching is not None
    assert (report.fetching.step, report.fetching.since) == ("PAUSED", WALL)


def test_sending_waits_for_answers_then_for_the_backoff() -> None:
    replicator, listener = partition()
    arrive(replicator, data(0))
    replicator.acknowledged(send(replicator)[0], 0, 0.0, WALL)
    arrive(replicator, data(1), data(2))
    first, second = send(replicator)
    replicator.produce_failed(first, RETRY, 0.0)
    assert replicator.send_step(0.0) is SendStep.SETTLING
    assert "answers to those that were sent after it are awaited" in str(replicator.why_not_sending(0.0))
    replicator.produce_failed(second, RETRY, 0.0)
    assert replicator.send_step(0.0) is SendStep.BACKOFF
    why = str(replicator.why_not_sending(0.0))
    assert "broker 2 is restarting" in why
    assert "next attempt in 0." in why
    now = listener.pauses[-1]
    assert replicator.send_step(now) is SendStep.IN_FLIGHT
    replicator.acknowledged(send(replicator, now)[0], 1, now, WALL)
    begun, ended = story(replicator, now)
    assert begun.startswith("sending: BACKOFF: ")
    assert ended == "sending resumed"


def test_a_batch_that_is_too_large_waits_for_the_limit() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 10))
    (entry,) = send(replicator)
    replicator.produce_failed(entry, from_response(ErrorCode.MESSAGE_TOO_LARGE, "too large", []), 0.0)
    assert replicator.send_step(0.0) is SendStep.AWAITS_SIZE_LIMIT
    assert replicator.why_not_sending(0.0) == (
        "the target rejected a batch as too large: the limit of A.orders is being read"
    )
    replicator.size_limit_read(200, 0.0)
    assert replicator.send_step(0.0) is SendStep.DIVIDING
    assert "taken apart" in str(replicator.why_not_sending(0.0))
    assert any(text.startswith("batches are made smaller: the target rejected one of ") for text in story(replicator))


def test_a_batch_that_may_be_on_the_target_is_fetched_again_first() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0, 5), data(5, 5))
    (entry,) = send(replicator)
    lost = ProduceError(action=ErrorAction.RETRY, message="lost", maybe_appended=True)
    replicator.produce_failed(entry, lost, 0.0)
    replicator.release_memory(0.0)
    assert replicator.send_step(9.0) is SendStep.AWAITS_BOUNDARY
    assert replicator.why_not_sending(9.0) == (
        "the target may have a batch up to offset 5, which is fetched again to repeat it"
    )


def test_memory_that_was_released_waits_for_the_target() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0))
    send(replicator)
    replicator.release_memory(3.0)
    assert replicator.fetch_step is FetchStep.MEMORY_RELEASED
    assert "other partitions need the memory" in str(replicator.why_not_fetching(3.0))
    assert story(replicator, 3.0) == [f"fetching: MEMORY_RELEASED: {replicator.why_not_fetching(3.0)}"]


def test_a_producer_id_is_awaited() -> None:
    replicator = replicator_of(
        PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=0), RecordingListener()
    )
    assert replicator.send_step(0.0) is SendStep.IDLE, "nothing is to be sent"
    arrive(replicator, data(0))
    assert replicator.send_step(0.0) is SendStep.AWAITS_PRODUCER_ID
    assert replicator.why_not_sending(0.0) == "a producer id is awaited from the target"
    replicator.target_unavailable("B: not authorized")
    assert replicator.why_not_sending(0.0) == "B: not authorized"
    replicator.set_producer_id(ProducerId(7, 0))
    assert replicator.send_step(0.0) is SendStep.READY


def with_pending_dead_letter() -> tuple[PartitionReplicator, RecordingListener]:
    replicator, listener = partition(dead_letters="letters")
    arrive(replicator, data(0))
    replicator.produce_failed(send(replicator)[0], REFUSED, 0.0)
    return replicator, listener


def test_a_dead_letter_holds_up_both_sides() -> None:
    replicator, listener = with_pending_dead_letter()
    assert steps(replicator) == (FetchStep.AWAITS_DEAD_LETTER, SendStep.AWAITS_DEAD_LETTER)
    why = replicator.why_not_fetching(0.0)
    assert why is not None
    assert why.startswith("offset 0 cannot be copied, and is being written to letters: ")
    assert why == replicator.why_not_sending(0.0)
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert steps(replicator) == (FetchStep.FETCHING, SendStep.IDLE)
    assert any(text.startswith(f"{LossKind.DEAD_LETTER}: offset 0: ") for text in story(replicator))


def test_a_truncation_is_shown_before_a_dead_letter() -> None:
    replicator, listener = partition(dead_letters="letters")
    arrive(replicator, data(0, 10, epoch=1))
    replicator.acknowledged(send(replicator)[0], 0, 0.0, WALL)
    arrive(replicator, data(10, 1, epoch=1))
    (entry,) = send(replicator)
    replicator.diverged(11, EpochEnd(1, 5), 0.0)
    assert replicator.why_not_fetching(0.0) == (
        "the source's log was truncated at offset 5: what is in flight is completed first"
    )
    replicator.produce_failed(entry, REFUSED, 0.0)
    assert steps(replicator) == (FetchStep.AWAITS_TRUNCATION, SendStep.AWAITS_DEAD_LETTER)
    replicator.dead_letter_written(listener.letters[0], 0.0)
    assert steps(replicator) == (FetchStep.FETCHING, SendStep.IDLE)
    assert f"{LossKind.TRUNCATED}: offsets 5-10: " in "\n".join(story(replicator))


def test_a_loss_that_stops_the_partition_stays() -> None:
    replicator, _ = partition(policy=LossPolicy(on_data_loss=OnDataLoss.STOP_PARTITION))
    replicator.reset_offset(OffsetReset.EARLIEST, 20, 50, 0.0)
    assert replicator.fetch_step is FetchStep.STOPPED
    why = replicator.why_not_fetching(0.0)
    assert why == replicator.progress(0.0, WALL).error
    assert "mm2 accept-loss" in str(why)
    replicator.drain(0.0)
    assert replicator.fetch_step is FetchStep.STOPPED


def test_a_partition_that_leaves_says_so() -> None:
    replicator, _ = partition()
    replicator.drain(7.0)
    assert story(replicator, 8.0) == [f"fetching: DRAINING: {replicator.why_not_fetching(8.0)}"]
    fetching = replicator.progress(8.0, WALL).fetching
    assert fetching is not None
    assert fetching.since == WALL - 1


def test_records_pass_through_the_query() -> None:
    replicator, _, transform = queried()
    arrive(replicator, data(0, 5))
    assert steps(replicator) == (FetchStep.FETCHING, SendStep.AWAITS_QUERY)
    assert replicator.why_not_sending(0.0) == "records pass through the query"
    transform.writes_itself = True
    replicator.writing(transform.frames[0], 0.0)
    assert replicator.send_step(0.0) is SendStep.WRITING


def test_a_transaction_is_rolled_back() -> None:
    replicator, _ = partition()
    replicator.is_transactional = True
    arrive(replicator, data(0))
    (entry,) = send(replicator)
    replicator.await_roll_back(0.0)
    assert (replicator.send_step(0.0), replicator.why_not_sending(0.0)) == (
        SendStep.ROLLING_BACK,
        "the transaction is being aborted",
    )
    replicator.acknowledged(entry, 0, 0.0, WALL)
    replicator.roll_back(0.0)
    assert "the transaction was aborted: copied again from offset 0" in story(replicator)


def test_a_failed_partition_is_paused_with_its_error() -> None:
    replicator, _ = partition()
    arrive(replicator, data(0))
    replicator.produce_failed(send(replicator)[0], REFUSED, 0.0)
    error = replicator.progress(0.0, WALL).error
    assert replicator.why_not_fetching(0.0) == f"{error}; next attempt in {TIMEOUTS.failed_retry_s:.1f} s"
    assert story(replicator)[-1] == f"fetching: PAUSED: {error}"


def test_the_newest_events_are_kept() -> None:
    replicator, _ = partition()
    for number in range(EVENTS_KEPT + 10):
        replicator.fetch_delayed(f"failure {number}", float(number))
    kept = story(replicator, 60.0)
    assert (len(kept), kept[0], kept[-1]) == (
        EVENTS_KEPT,
        "fetching: PAUSED: failure 10",
        f"fetching: PAUSED: failure {EVENTS_KEPT + 9}",
    )


def test_a_broken_invariant_is_found_and_tells_the_story() -> None:
    replicator, _ = partition()
    replicator.fetch_delayed("no answer", 0.0)
    replicator.validate()
    replicator.held_bytes += 1
    with pytest.raises(InvariantError, match=r"orders-3: \(H\) does not hold: position 0, .*\n0\.000 fetching: PAUSED"):
        replicator.validate()
    replicator.held_bytes -= 1
    replicator.position = 1
    with pytest.raises(InvariantError, match=r"\(G\)"):
        replicator.validate()


def test_every_step_has_its_transitions() -> None:
    assert set(FETCH_TRANSITIONS) == set(FetchStep)
    assert not FETCH_TRANSITIONS[FetchStep.STOPPED], "a lease with the acceptance replaces the partition"
    assert [step for step in FetchStep if FetchStep.AWAITS_START in FETCH_TRANSITIONS[step]] == [FetchStep.PAUSED]


def test_a_step_that_may_not_follow_is_found() -> None:
    replicator, _ = partition()
    replicator.drain(0.0)
    replicator.is_draining = False
    with pytest.raises(InvariantError, match=r"\(J\)"):
        replicator.validate()


def test_parts_of_a_frame_do_not_change_the_step() -> None:
    replicator, _, _ = queried()
    arrive(replicator, data(0, 5), data(5, 5))
    replicator.transformed(0, FrameResult(), 0.0)
    assert steps(replicator) == (FetchStep.FETCHING, SendStep.IDLE)
    replicator.validate()
