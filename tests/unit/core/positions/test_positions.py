from __future__ import annotations

from mm2.core.naming.names import TopicPartition
from mm2.core.positions.answer import PositionAnswer, Precision
from mm2.core.positions.positions import Position, PositionsUnreadableError, TranslatedPosition, translated

ORDERS, REMOTE = TopicPartition("orders", 1), TopicPartition("A.orders", 1)


def answer(offset: int | None, precision: Precision, **more: object) -> TranslatedPosition:
    given = PositionAnswer(offset=offset, precision=precision, **more)  # type: ignore[arg-type]
    return translated(Position("orders", 1, 120), REMOTE, given)


def test_position() -> None:
    one = Position("orders", 1, 120)
    assert (one.topic_partition, str(one)) == (ORDERS, "orders:1:120")
    assert sorted([Position("b", 0, 1), Position("a", 1, 0), one])[0].topic == "a"


def test_json_of_the_contract() -> None:
    row = answer(100, Precision.EXACT)
    assert row.exact
    assert row.answer == Position("A.orders", 1, 100)
    assert list(row.as_json().items()) == [
        ("topic", "orders"),
        ("partition", 1),
        ("offset", 120),
        ("remote_topic", "A.orders"),
        ("remote_partition", 1),
        ("remote_offset", 100),
        ("precision", "exact"),
        ("reason", ""),
        ("read_again", 0),
        ("missing", None),
    ]


def test_json_in_reverse() -> None:
    given = PositionAnswer(offset=120, precision=Precision.NEXT, reason="a marker")
    row = translated(Position("A.orders", 1, 100), ORDERS, given, reverse=True, group="billing")
    assert not row.exact
    assert row.answer == Position("orders", 1, 120)
    assert row.as_json() == {
        "group": "billing",
        "remote_topic": "A.orders",
        "remote_partition": 1,
        "remote_offset": 100,
        "source_topic": "orders",
        "source_partition": 1,
        "source_offset": 120,
        "precision": "next",
        "reason": "a marker",
        "read_again": 0,
        "missing": None,
    }
    assert str(row) == "group billing: A.orders:1:100: next orders:1:120 (a marker)"


def test_lines_about_positions_that_are_not_exact() -> None:
    assert str(answer(100, Precision.END)) == "orders:1:120: end A.orders:1:100"
    ahead = answer(100, Precision.AHEAD, reason="not copied yet", missing=1_020)
    assert str(ahead) == "orders:1:120: ahead A.orders:1:100 (not copied yet; 1,020 source offsets are not copied yet)"
    again = answer(90, Precision.CONSERVATIVE, reason="before the map", read_again=1_030)
    assert str(again).endswith("conservative A.orders:1:90 (before the map; at most 1,030 are read again)")
    unknown = answer(0, Precision.CONSERVATIVE, read_again=None)
    assert str(unknown).endswith("conservative A.orders:1:0 (an unknown number of records is read again)")
    none = answer(None, Precision.CONSERVATIVE, reason="not selected", read_again=None)
    assert str(none) == "orders:1:120: left out (not selected)"
    assert none.answer is None
    by_time = TranslatedPosition(
        source=ORDERS, source_offset=None, remote=REMOTE, remote_offset=5, precision=Precision.NEXT, reason=""
    )
    assert str(by_time) == "orders:1:-: next A.orders:1:5"


def test_unreadable_positions() -> None:
    error = PositionsUnreadableError("no flow A->C", is_unknown=True)
    assert (str(error), error.is_unknown) == ("no flow A->C", True)
    assert not PositionsUnreadableError("B is unreachable").is_unknown
