"""Answers about positions."""

from __future__ import annotations

from mm2.core.positions.answer import PositionAnswer, Precision


def test_exact_answers_read_nothing_again() -> None:
    answer = PositionAnswer(offset=7, precision=Precision.EXACT)
    assert answer.exact
    assert (answer.reason, answer.read_again, answer.missing) == ("", 0, None)
    assert not PositionAnswer(offset=7, precision=Precision.NEXT, reason="hole").exact


def test_precisions_are_those_of_the_json_output() -> None:
    assert [*map(str, Precision)] == ["exact", "next", "end", "ahead", "conservative"]
