"""The letters are those of `flows.partition.in_flight.InFlightBatches`'s invariants."""

from __future__ import annotations

from flows.batch.target_batch import NO_SEQUENCE, NOT_IDEMPOTENT, ProducerId, TargetBatch
from flows.partition.in_flight import InFlightBatch, InFlightBatches
from flows.partition.timeouts import TIMEOUTS
from flows.target.produce_errors import ErrorAction, ProduceError
from tests.lab.batches import HEADER

PRODUCER = ProducerId(7, 0)
LOST = ProduceError(action=ErrorAction.RETRY, message="lost", maybe_appended=True)
REJECTED = ProduceError(action=ErrorAction.RETRY, message="rejected", maybe_appended=False)


def batch(offset: int, count: int = 1) -> TargetBatch:
    return TargetBatch(
        attributes=0,
        base_timestamp=0,
        max_timestamp=0,
        count=count,
        records=b"",
        runs=((offset, count),),
        next_offset=offset + count,
        held_bytes=1,
        source_bytes=1,
    )


def batches_of(*counts: int, confirmed: bool = True, producer: ProducerId = PRODUCER) -> InFlightBatches:
    batches = InFlightBatches(max_in_flight=5, now=0.0)
    batches.set_producer_id(producer)
    if confirmed:
        batches.append([batch(0)])
        batches.acknowledged(batches.send(0.0), 0, 0.0)
    batches.append([batch(100 * index, count) for index, count in enumerate(counts)])
    return batches


def send_all(batches: InFlightBatches) -> list[InFlightBatch]:
    taken = []
    while batches.has_unsent and batches.can_send:
        taken.append(batches.send(0.0))
    return taken


def sequences(sent: list[InFlightBatch]) -> list[int]:
    return [HEADER.unpack(entry.batch.wire()[0])[11] for entry in sent]


def test_nothing_is_sent_without_a_producer_id() -> None:
    batches = InFlightBatches(max_in_flight=5, now=0.0)
    batches.append([batch(0)])
    assert not batches.can_send
    batches.set_producer_id(PRODUCER)
    assert batches.can_send


def test_sequences_are_consecutive_b() -> None:
    batches = batches_of(3, 2, 7)
    assert sequences(send_all(batches)) == [1, 4, 6]


def test_at_most_a_window_is_in_flight() -> None:
    batches = batches_of(*[1] * 9)
    sent = send_all(batches)
    assert len(sent) == 5
    assert [entry.batch.first_offset for entry in batches.acknowledged(sent[0], 10, 0.0)] == [0]
    assert len(send_all(batches)) == 1


def test_a_smaller_window_is_respected() -> None:
    batches = InFlightBatches(max_in_flight=2, now=0.0)
    batches.set_producer_id(PRODUCER)
    batches.append([batch(offset) for offset in range(4)])
    batches.acknowledged(batches.send(0.0), 0, 0.0)
    assert len(send_all(batches)) == 2


def test_batches_acknowledged_after_the_first_wait_for_it_d() -> None:
    batches = batches_of(*[1] * 9)
    sent = send_all(batches)
    for entry in sent[1:]:
        assert batches.acknowledged(entry, 50, 0.0) == []
    assert not batches.can_send, "the first must stay among the five that the broker remembers"
    assert batches.acknowledged(sent[0], 49, 0.0) == sent
    assert batches.can_send


def test_the_first_batch_of_a_producer_is_sent_alone_e() -> None:
    batches = batches_of(1, 1, confirmed=False)
    (first,) = send_all(batches)
    batches.acknowledged(first, 0, 0.0)
    assert len(send_all(batches)) == 1


def test_without_idempotence_one_at_a_time_and_no_sequences_e() -> None:
    batches = batches_of(1, 1, 1, producer=NOT_IDEMPOTENT)
    (first,) = send_all(batches)
    assert sequences([first]) == [NO_SEQUENCE]
    batches.acknowledged(first, 5, 0.0)
    assert len(send_all(batches)) == 1


def test_after_a_failure_everything_is_answered_first_and_then_one_is_sent_alone_c() -> None:
    batches = batches_of(1, 1, 1)
    sent = send_all(batches)
    batches.failed(sent[0], LOST)
    assert not batches.can_send
    assert not batches.is_settled
    batches.acknowledged(sent[1], 60, 0.0)
    batches.failed(sent[2], REJECTED)
    assert batches.is_settled
    assert batches.settle() is LOST
    (again,) = send_all(batches)
    assert again is sent[0]
    assert sequences([again]) == [1], "with the same sequence"
    assert batches.acknowledged(again, 59, 0.0) == sent[:2]
    assert send_all(batches) == [sent[2]]


def test_uncertainty_stays_until_it_is_resolved_f() -> None:
    batches = batches_of(1)
    for error in (LOST, REJECTED):
        (entry,) = send_all(batches)
        batches.failed(entry, error)
        batches.settle()
    batches.clear()
    assert batches.resend_boundary == 1
    batches.append([batch(0)], resend=True)
    assert batches.resend_boundary is None
    (entry,) = send_all(batches)
    batches.acknowledged(entry, 0, 0.0)
    batches.append([batch(1)])
    batches.failed(send_all(batches)[0], REJECTED)
    batches.settle()
    batches.clear()
    assert batches.resend_boundary is None


def test_another_producer_id_drops_the_boundaries_f() -> None:
    batches = batches_of(1)
    (entry,) = send_all(batches)
    batches.failed(entry, LOST)
    batches.settle()
    batches.clear()
    batches.set_producer_id(ProducerId(8, 0))
    assert batches.resend_boundary is None


def test_parts_share_the_sequences_of_the_batch() -> None:
    batches = batches_of(10, 4)
    for entry in send_all(batches):
        batches.failed(entry, REJECTED)
    batches.settle()
    batches.replace_first([batch(0, 3), batch(3, 7)])
    sent: list[InFlightBatch] = []
    while batches.has_unsent:
        (entry,) = send_all(batches)
        sent.append(entry)
        batches.acknowledged(entry, 0, 0.0)
        if len(sent) == 1:
            sent += (rest := send_all(batches))
            for one in rest:
                batches.acknowledged(one, 0, 0.0)
    assert sequences(sent) == [1, 4, 11]


def test_another_producer_id_starts_at_sequence_0() -> None:
    batches = batches_of(2, 3)
    for entry in send_all(batches):
        batches.failed(entry, REJECTED)
    batches.settle()
    batches.clear_producer_id()
    assert not batches.can_send
    batches.set_producer_id(ProducerId(8, 0))
    (first,) = send_all(batches)
    assert sequences([first]) == [0]
    batches.acknowledged(first, 0, 0.0)
    assert sequences(send_all(batches)) == [2]


def test_sequences_of_cleared_batches_are_reused() -> None:
    batches = batches_of(5, 5)
    for entry in send_all(batches):
        batches.failed(entry, REJECTED)
    batches.settle()
    removed = batches.clear()
    assert [one.first_offset for one in removed] == [0, 100]
    batches.append([batch(0, 9)])
    assert sequences(send_all(batches)) == [1]


def test_after_a_long_idle_time_one_is_sent_alone() -> None:
    batches = batches_of()
    batches.probe_after_silence(TIMEOUTS.probe_after_s + 1)
    batches.append([batch(0), batch(1)])
    assert len(send_all(batches)) == 1
