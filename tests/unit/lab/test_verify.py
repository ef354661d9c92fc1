"""The judge is judged: each kind of damage done to a copy is found and named, and only that kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.history import Record
from tests.lab.verify import Verdict, compare

Copy = list[Record]


def record(number: int, *, key: bytes | None = b"k", value: bytes | None = None, timestamp: int = 0) -> Record:
    return Record(0, number, (key, b"%d" % number if value is None else value, (), timestamp or 1000 + number))


SOURCE = [record(number) for number in range(6)]


def lose(copy: Copy) -> Copy:
    return copy[:2] + copy[3:]


def repeat(copy: Copy) -> Copy:
    return copy[:4] + copy[2:]


def swap(copy: Copy) -> Copy:
    return [copy[1], copy[0], *copy[2:]]


def change(copy: Copy) -> Copy:
    key, _, headers, timestamp = copy[3].content
    return [*copy[:3], Record(0, 3, (key, b"other", headers, timestamp)), *copy[4:]]


def invent(copy: Copy) -> Copy:
    return [*copy, record(99)]


@pytest.mark.parametrize(
    ("damage", "kind", "how_many"),
    [
        (lose, "lost", 1),
        (repeat, "duplicated", 2),
        (swap, "reordered", 2),
        (change, "changed", 1),
        (invent, "foreign", 1),
    ],
)
def test_each_damage_has_its_name(damage: Callable[[Copy], Copy], kind: str, how_many: int) -> None:
    verdict = compare({0: SOURCE}, {0: damage(list(SOURCE))})

    found = {name: len(getattr(verdict, name)) for name in ("lost", "duplicated", "reordered", "changed", "foreign")}
    assert {name: number for name, number in found.items() if number} == {kind: how_many}
    assert not verdict.exact
    assert kind in str(verdict)


def test_equal_records_are_counted_not_merged() -> None:
    twins = [record(0, value=b"same", timestamp=5), record(1, value=b"same", timestamp=5)]

    assert compare({0: twins}, {0: twins}).exact
    assert len(compare({0: twins}, {0: twins[:1]}).lost) == 1
    assert len(compare({0: twins}, {0: [*twins, twins[0]]}).duplicated) == 1


def test_a_record_in_another_partition_is_lost_here_and_foreign_there() -> None:
    verdict = compare({0: SOURCE, 1: []}, {0: SOURCE[:-1], 1: SOURCE[-1:]})

    assert (len(verdict.lost), len(verdict.foreign)) == (1, 1)


def test_repetitions_are_complete_but_not_exact() -> None:
    verdict = compare({0: SOURCE}, {0: SOURCE + SOURCE[3:]})

    assert verdict.complete
    assert not verdict.exact


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcx")))
def test_numbers_add_up_whatever_is_compared(source: list[str], remote: list[str]) -> None:
    verdict = compare({0: letters(source)}, {0: letters(remote)})

    assert verdict.exact == (source == remote)
    explained = len(source) - len(verdict.lost) - len(verdict.changed)
    assert len(remote) == explained + len(verdict.changed) + len(verdict.duplicated) + len(verdict.foreign)
    assert isinstance(verdict, Verdict)


def letters(texts: list[str]) -> Copy:
    return [record(place, value=text.encode(), timestamp=7) for place, text in enumerate(texts)]
