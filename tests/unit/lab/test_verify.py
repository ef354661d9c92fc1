"""Tests of the copy check: each kind of damage is found and named, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab.history import Record
from tests.lab.verify import Verdict, compare, is_behind

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


def write_behind(copy: Copy) -> Copy:
    """A former owner repeats two records after those of its successor."""
    return copy + copy[2:4]


def change(copy: Copy) -> Copy:
    key, _, headers, timestamp = copy[3].content
    return [*copy[:3], Record(0, 3, (key, b"other", headers, timestamp)), *copy[4:]]


def invent(copy: Copy) -> Copy:
    return [*copy, record(99)]


KINDS = ("lost", "duplicated", "reordered", "changed", "foreign", "stale")


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lose, {"lost": 1}),
        (repeat, {"duplicated": 2}),
        (swap, {"reordered": 2}),
        (change, {"changed": 1}),
        (invent, {"foreign": 1}),
        (write_behind, {"duplicated": 2, "stale": 2}),
    ],
)
def test_each_kind_of_damage_is_named(damage: Callable[[Copy], Copy], found: dict[str, int]) -> None:
    verdict = compare({0: SOURCE}, {0: damage(list(SOURCE))})

    numbers = {name: len(getattr(verdict, name)) for name in KINDS}
    assert {name: number for name, number in numbers.items() if number} == found
    assert not verdict.exact
    assert verdict.complete is (found.keys() == {"duplicated"})
    assert all(kind in str(verdict) for kind in found)


@given(st.permutations("abcde"), st.lists(st.sampled_from("abcde")))
def test_last_copies_must_be_in_source_order(first: list[str], later: list[str]) -> None:
    copied = [*first, *later]
    last = {letter: len(copied) - copied[::-1].index(letter) for letter in "abcde"}
    wanted = {old for old in "abcde" for new in "abcde" if old < new and last[old] > last[new]}

    stale = compare({0: letters(list("abcde"))}, {0: letters(copied)}).stale
    assert {one.content[1] for one in stale} == ({letter.encode() for letter in wanted} if later else set())


@given(st.lists(st.sampled_from("abc")), st.integers(0, 9), st.integers(0, 9))
def test_owner_that_resumes_earlier_leaves_no_stale_copy(source: list[str], stopped: int, resumed: int) -> None:
    copied = source[:stopped] + source[min(resumed, stopped) :]

    assert not compare({0: letters(source)}, {0: letters(copied)}).stale


def test_equal_records_are_counted_not_merged() -> None:
    twins = [record(0, value=b"same", timestamp=5), record(1, value=b"same", timestamp=5)]

    assert compare({0: twins}, {0: twins}).exact
    assert len(compare({0: twins}, {0: twins[:1]}).lost) == 1
    assert len(compare({0: twins}, {0: [*twins, twins[0]]}).duplicated) == 1


def test_record_in_another_partition_is_lost_here_and_foreign_there() -> None:
    verdict = compare({0: SOURCE, 1: []}, {0: SOURCE[:-1], 1: SOURCE[-1:]})

    assert (len(verdict.lost), len(verdict.foreign)) == (1, 1)


def test_repetitions_are_complete_but_not_exact() -> None:
    verdict = compare({0: SOURCE}, {0: SOURCE + SOURCE[3:]})

    assert verdict.complete
    assert not verdict.exact


@pytest.mark.parametrize(("copied", "behind"), [(SOURCE[:4], True), (SOURCE[:2] + SOURCE[3:], False), ([], True)])
def test_only_a_missing_end_can_still_arrive(copied: Copy, behind: bool) -> None:
    """A record missing before one that is present was lost: records of a partition arrive in order."""
    assert is_behind({0: SOURCE}, compare({0: SOURCE}, {0: copied})) == behind


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcx")))
def test_counts_add_up_for_any_comparison(source: list[str], remote: list[str]) -> None:
    verdict = compare({0: letters(source)}, {0: letters(remote)})

    assert verdict.exact == (source == remote)
    explained = len(source) - len(verdict.lost) - len(verdict.changed)
    assert len(remote) == explained + len(verdict.changed) + len(verdict.duplicated) + len(verdict.foreign)
    assert isinstance(verdict, Verdict)


def letters(texts: list[str]) -> Copy:
    return [record(place, value=text.encode(), timestamp=7) for place, text in enumerate(texts)]
