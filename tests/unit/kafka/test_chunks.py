"""Requests of limited size."""

from __future__ import annotations

from mm2.kafka.chunks import chunks


def test_by_number() -> None:
    assert list(chunks("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(chunks("", 2)) == []


def test_by_weight() -> None:
    assert list(chunks([2, 3, 1, 9, 4, 1], 5, lambda number: number)) == [[2, 3], [1], [9], [4, 1]]
