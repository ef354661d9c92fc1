"""What a wait returns, and what it reports when its deadline has passed."""

from __future__ import annotations

import re
import time
from itertools import chain, repeat

import pytest

from tests.lab.waiting import SHOWN, SHOWN_CHARACTERS, GaveUp, Observations, require_within, until, wait_until


def test_the_value_that_ended_the_wait_is_returned() -> None:
    values = iter(["", [], 0, 7])
    assert wait_until(lambda: next(values), 10, "a value is there") == 7


async def test_conditions_can_be_coroutines() -> None:
    values = iter([1, 2, 3])

    async def condition() -> int:
        return next(values)

    assert await until(condition, 10, "it is 3", accept=lambda value: value == 3) == 3
    assert await until(lambda: "at once", 0, "a plain condition") == "at once"


def test_a_missed_deadline_shows_each_change_with_its_second() -> None:
    states = chain(["Dead", "Dead", "Joining", "Dead"], repeat("Joining"))
    with pytest.raises(GaveUp) as missed:
        wait_until(lambda: next(states), 0.2, "the group is stable", accept=lambda state: state == "Stable")
    times = re.sub(r"\(\d\.\d s\)", "(T)", str(missed.value))
    assert times == "not within 0.2 s: the group is stable; seen: 'Dead' (T), 'Joining' (T), 'Dead' (T), 'Joining' (T)"


async def test_a_missed_deadline_of_a_coroutine_shows_them_too() -> None:
    values = chain([None, 0], repeat(False))
    with pytest.raises(
        GaveUp, match=r"^not within 0\.1 s: it happens; seen: None \(0\.\d s\), 0 \(.*\), False \(0\.\d s\)$"
    ):
        await until(lambda: next(values), 0.1, "it happens")


def test_a_value_that_changes_in_place_is_shown_as_it_was() -> None:
    growing: list[int] = []

    def condition() -> list[int]:
        growing.append(len(growing))
        return growing

    with pytest.raises(GaveUp, match=r"seen: \[0\] \(0\.\d s\), \[0, 1\] \("):
        wait_until(condition, 0.05, "nothing is enough", accept=lambda _: False)


def test_the_message_is_bounded() -> None:
    seen = Observations()
    assert str(seen) == "nothing"
    for number in range(100):
        seen.add(f"{number} " + "x" * 10_000)
    text = str(seen)
    assert text.startswith("'0 xxx")
    assert f", {100 - SHOWN} more, '93 xxx" in text
    assert "'99 xxx" in text
    assert "... (10005 characters) (0.0 s)" in text
    assert len(text) < SHOWN * (SHOWN_CHARACTERS + 100)


def test_errors_of_the_condition_end_the_wait() -> None:
    began = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0, 60, "it divides")
    assert time.monotonic() - began < 30


def test_measured_pauses_have_limits() -> None:
    require_within(7.9, 8, "records arrive again")
    with pytest.raises(GaveUp, match=r"^not within 8 s: records arrive again \(it took 8\.0 s\)$"):
        require_within(8, 8, "records arrive again")
