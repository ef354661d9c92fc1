"""A failed record is asked of the engine until it is answered."""

from __future__ import annotations

from mm2.core.lanes.engine_orders import RecordError
from mm2.core.lanes.lease import LaneQuery
from mm2.core.settings.row_query import RowTransform
from mm2.node.engine.lease_service import MAX_ORDERED, MAX_ORDERED_BYTES, FailedRecords

QUERY = LaneQuery(name="mask", action=RowTransform(module="shop", function="mask"))


class Asked:
    """Failed records, and the answers to the first."""

    def __init__(self) -> None:
        self.records = FailedRecords()
        self.answers: list[str | None] = []
        self.number = self.ask()

    def ask(self, batch: str = "YmF0Y2g=") -> int:
        return self.records.add(QUERY, "orders", 3, batch, self.answers.append)

    def ordered(self) -> list[int]:
        return [record.number for record in self.records.orders()]


def test_a_record_is_new_until_it_was_ordered() -> None:
    asked = Asked()
    assert (asked.records.has_new, asked.records.has_ordered) == (True, False)
    (record,) = asked.records.orders()
    assert (record.query, record.topic, record.partition, record.batch) == (QUERY, "orders", 3, "YmF0Y2g=")
    assert (asked.records.has_new, asked.records.has_ordered) == (False, True)


def test_an_order_is_repeated_until_its_answer() -> None:
    asked = Asked()
    other = asked.ask()
    asked.records.take(1, [])
    assert asked.ordered() == asked.ordered() == [asked.number, other]
    asked.records.take(1, [RecordError(number=asked.number, message="[CAST_INVALID_INPUT] …")])
    assert asked.answers == ["[CAST_INVALID_INPUT] …"]
    assert asked.ordered() == [other]
    asked.records.take(1, [RecordError(number=asked.number, message="again"), RecordError(number=other, message=None)])
    assert asked.answers == ["[CAST_INVALID_INPUT] …", None]
    assert not asked.records.has_ordered


def test_only_the_oldest_records_are_ordered() -> None:
    asked = Asked()
    numbers = [asked.number, *(asked.ask() for _ in range(2 * MAX_ORDERED))]
    asked.records.take(1, [])
    assert asked.ordered() == numbers[:MAX_ORDERED]
    assert not asked.records.has_new, "the others wait for an answer"
    asked.records.take(1, [RecordError(number=numbers[1], message="[CAST_INVALID_INPUT] …")])
    assert asked.records.has_new
    assert asked.ordered() == [numbers[0], *numbers[2 : MAX_ORDERED + 1]]
    for number in numbers[:MAX_ORDERED]:
        asked.records.give_up(number)
    assert asked.ordered() == numbers[MAX_ORDERED : 2 * MAX_ORDERED]


def test_large_records_are_ordered_one_after_the_other() -> None:
    asked = Asked()
    large = [asked.ask("x" * MAX_ORDERED_BYTES) for _ in range(2)]
    small = asked.ask()
    assert asked.ordered() == [asked.number]
    asked.records.give_up(asked.number)
    assert asked.records.has_new
    assert asked.ordered() == [large[0]]
    asked.records.give_up(large[0])
    assert asked.ordered() == [large[1]]
    asked.records.give_up(large[1])
    assert asked.ordered() == [small]


def test_a_new_engine_process_is_asked_again() -> None:
    asked = Asked()
    asked.records.take(1, [])
    asked.ordered()
    asked.records.take(1, [])
    assert not asked.records.has_new
    asked.records.take(2, [])
    assert asked.records.has_new


def test_a_record_that_was_given_up_is_forgotten() -> None:
    asked = Asked()
    asked.ordered()
    asked.records.give_up(asked.number)
    asked.records.give_up(asked.number)
    asked.records.take(1, [RecordError(number=asked.number, message="late")])
    assert asked.answers == []
    assert asked.ordered() == []
    assert not asked.records.has_new
