"""The lane and its query run together: the error of the first that ends is the lane's."""

from __future__ import annotations

import asyncio

import pytest

from flows.lane.lane_runner import first_to_end


class Ended(Exception):
    """The first error."""


async def ends(error: Exception | None = None) -> None:
    if error is not None:
        raise error


async def runs(ended: list[str], error: Exception | None = None) -> None:
    """Run until cancelled, then end with this error."""
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("cancelled")
        if error is not None:
            raise error


async def test_the_error_of_the_first() -> None:
    ended: list[str] = []
    with pytest.raises(Ended):
        await first_to_end(runs(ended), ends(Ended()))
    assert ended == ["cancelled"]


async def test_one_that_cannot_be_closed_in_time_does_not_hide_the_error(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []
    with pytest.raises(Ended):
        await first_to_end(runs(ended, TimeoutError("not within 2 s")), ends(Ended()))
    assert "not within 2 s" in caplog.text


async def test_one_that_cannot_be_closed_after_an_orderly_end(caplog: pytest.LogCaptureFixture) -> None:
    await first_to_end(ends(), runs([], TimeoutError("not within 2 s")))
    assert "not within 2 s" in caplog.text


async def test_two_that_fail_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Ended):
        await first_to_end(ends(Ended()), ends(KeyError("the other one")))
    assert "the other one" in caplog.text


async def test_both_are_cancelled_with_the_lane() -> None:
    ended: list[str] = []
    running = asyncio.create_task(first_to_end(runs(ended), runs(ended)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert ended == ["cancelled"] * 2
