"""The letters are those of `flows.line.Line`'s invariants."""

from __future__ import annotations

from flows.batch.outgoing import NO_SEQUENCE, NOT_IDEMPOTENT, Outgoing, ProducerId
from flows.line import Line, Place
from flows.outcomes import Refusal, Verdict
from tests.lab.batches import HEADER

PRODUCER = ProducerId(7, 0)
LOST = Refusal(verdict=Verdict.RETRY, words="lost", maybe_appended=True)
REFUSED = Refusal(verdict=Verdict.RETRY, words="refused", maybe_appended=False)


def batch(offset: int, count: int = 1) -> Outgoing:
    return Outgoing(
        attributes=0,
        base_timestamp=0,
        max_timestamp=0,
        count=count,
        records=b"",
        runs=((offset, count),),
        until=offset + count,
        held=1,
        source_bytes=1,
    )


def line_of(*counts: int, confirmed: bool = True, producer: ProducerId = PRODUCER) -> Line:
    line = Line(max_in_flight=5)
    line.adopt(producer)
    if confirmed:
        line.append([batch(0)])
        line.acked(line.take(), 0)
    line.append([batch(100 * index, count) for index, count in enumerate(counts)])
    return line


def take_all(line: Line) -> list[Place]:
    taken = []
    while line.has_unsent and line.ready:
        taken.append(line.take())
    return taken


def sequences(places: list[Place]) -> list[int]:
    return [HEADER.unpack(place.batch.wire()[0])[11] for place in places]


def test_nothing_goes_out_without_a_producer() -> None:
    line = Line(max_in_flight=5)
    line.append([batch(0)])
    assert not line.ready
    line.adopt(PRODUCER)
    assert line.ready


def test_sequences_follow_one_another_b() -> None:
    line = line_of(3, 2, 7)
    assert sequences(take_all(line)) == [1, 4, 6]


def test_at_most_a_window_is_in_flight() -> None:
    line = line_of(*[1] * 9)
    places = take_all(line)
    assert len(places) == 5
    assert [place.batch.first_offset for place in line.acked(places[0], 10)] == [0]
    assert len(take_all(line)) == 1


def test_a_smaller_window_is_honoured() -> None:
    line = Line(max_in_flight=2)
    line.adopt(PRODUCER)
    line.append([batch(offset) for offset in range(4)])
    line.acked(line.take(), 0)
    assert len(take_all(line)) == 2


def test_what_is_acknowledged_behind_the_first_waits_for_it_d() -> None:
    line = line_of(*[1] * 9)
    places = take_all(line)
    for place in places[1:]:
        assert line.acked(place, 50) == []
    assert not line.ready, "the first must stay among the five that the broker remembers"
    assert line.acked(places[0], 49) == places
    assert line.ready


def test_the_first_batch_of_a_producer_goes_alone_e() -> None:
    line = line_of(1, 1, confirmed=False)
    (first,) = take_all(line)
    line.acked(first, 0)
    assert len(take_all(line)) == 1


def test_without_idempotence_one_at_a_time_and_no_sequences_e() -> None:
    line = line_of(1, 1, 1, producer=NOT_IDEMPOTENT)
    (first,) = take_all(line)
    assert sequences([first]) == [NO_SEQUENCE]
    line.acked(first, 5)
    assert len(take_all(line)) == 1


def test_after_a_refusal_everything_comes_back_first_and_then_one_goes_alone_c() -> None:
    line = line_of(1, 1, 1)
    places = take_all(line)
    line.refused(places[0], LOST)
    assert not line.ready
    assert not line.settled
    line.acked(places[1], 60)
    line.refused(places[2], REFUSED)
    assert line.settled
    assert line.settle() is LOST
    (again,) = take_all(line)
    assert again is places[0]
    assert sequences([again]) == [1], "with the same sequence"
    assert line.acked(again, 59) == places[:2]
    assert take_all(line) == [places[2]]


def test_uncertainty_stays_until_it_is_resolved() -> None:
    line = line_of(1)
    (place,) = take_all(line)
    line.refused(place, LOST)
    line.settle()
    (place,) = take_all(line)
    line.refused(place, REFUSED)
    line.settle()
    assert line.maybe_appended
    (place,) = take_all(line)
    line.acked(place, 0)
    assert not line.maybe_appended


def test_parts_share_the_sequences_of_the_whole() -> None:
    line = line_of(10, 4)
    places = take_all(line)
    for place in places:
        line.refused(place, REFUSED)
    line.settle()
    line.replace_head([batch(0, 3), batch(3, 7)])
    sent: list[Place] = []
    while line.has_unsent:
        (place,) = take_all(line)
        sent.append(place)
        line.acked(place, 0)
        if len(sent) == 1:
            sent += (rest := take_all(line))
            for one in rest:
                line.acked(one, 0)
    assert sequences(sent) == [1, 4, 11]


def test_another_producer_numbers_anew() -> None:
    line = line_of(2, 3)
    for place in take_all(line):
        line.refused(place, REFUSED)
    line.settle()
    line.disown()
    assert not line.ready
    line.adopt(ProducerId(8, 0))
    (first,) = take_all(line)
    assert sequences([first]) == [0]
    line.acked(first, 0)
    assert sequences(take_all(line)) == [2]


def test_what_is_given_up_leaves_its_sequences_to_what_comes_after() -> None:
    line = line_of(5, 5)
    for place in take_all(line):
        line.refused(place, REFUSED)
    line.settle()
    gone = line.clear()
    assert [one.first_offset for one in gone] == [0, 100]
    line.append([batch(0, 9)])
    assert sequences(take_all(line)) == [1]


def test_doubt_sends_one_alone() -> None:
    line = line_of(1, 1)
    line.doubt()
    assert len(take_all(line)) == 1
