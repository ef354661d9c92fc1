from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from mm2.core.naming.names import Flow
from mm2.kafka.errors import ClusterError, NotSupported, Unreachable
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying

log = logging.getLogger(__name__)


@pytest.fixture
def error() -> CurrentError:
    return CurrentError(log, Flow("A", "B"), "starting")


class Waits:
    """Records how long each backoff was, in seconds, instead of waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def failing(*errors: BaseException, show: Callable[[], None] = lambda: None) -> Callable[[], Awaitable[str]]:
    """Return an attempt that raises these errors one after the other, and then returns."""
    left = list(errors)

    async def attempt() -> str:
        show()
        if left:
            raise left.pop(0)
        return "done"

    return attempt


async def test_the_result_of_the_first_success(error: CurrentError, caplog: pytest.LogCaptureFixture) -> None:
    shown: list[str | None] = []
    waits = Waits()
    attempt = failing(
        Unreachable("no broker"),
        Unreachable("no broker"),
        NotSupported("too old"),
        show=lambda: shown.append(error.text),
    )
    assert await keep_trying(attempt, error, "look", sleep=waits) == "done"
    assert shown == ["starting", "cannot look: no broker", "cannot look: no broker", "cannot look: too old"]
    assert (error.text, error.cause) == (None, None)
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ["A->B: cannot look: no broker", "A->B: cannot look: too old"]
    assert [0.8 <= one <= 1.2 for one in waits.seconds[:1]] == [True]
    assert 3.2 <= waits.seconds[2] <= 4.8


async def test_the_backoff_has_a_maximum(error: CurrentError) -> None:
    waits = Waits()
    await keep_trying(failing(*[Unreachable("no")] * 9), error, "look", min_ms=50, max_ms=100, sleep=waits)
    assert max(waits.seconds) <= 0.12


async def test_a_function_makes_the_whole_text(error: CurrentError) -> None:
    waits = Waits()

    async def sleep(seconds: float) -> None:
        assert error.text == "look at it: no broker; nothing is copied"
        assert isinstance(error.cause, Unreachable)
        await waits(seconds)

    attempt = failing(Unreachable("no broker"))
    await keep_trying(attempt, error, lambda cause: f"look at it: {cause}; nothing is copied", sleep=sleep)
    assert len(waits.seconds) == 1


@pytest.mark.parametrize(
    "raised", [ValueError("a bug"), ExceptionGroup("two", [Unreachable("no broker"), ValueError("a bug")])]
)
async def test_unexpected_errors(error: CurrentError, raised: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(type(raised)):
        await keep_trying(failing(raised), error, "look", sleep=Waits())
    shown: list[str | None] = []
    attempt = failing(raised, show=lambda: shown.append(error.text))
    await keep_trying(attempt, error, "look", unexpected="see the log", sleep=Waits())
    assert shown == ["starting", "see the log"]
    assert "a bug" in caplog.text  # the traceback


async def test_a_group_of_expected_errors(error: CurrentError) -> None:
    shown: list[str | None] = []
    attempt = failing(
        ExceptionGroup("tasks", [ExceptionGroup("more", [Unreachable("first")]), NotSupported("second")]),
        show=lambda: shown.append(error.text),
    )
    await keep_trying(attempt, error, "look", sleep=Waits())
    assert shown[1] == "cannot look: first"


async def test_an_unexpected_error_in_a_group_is_the_cause(error: CurrentError) -> None:
    bug = KeyError("a bug")
    causes: list[BaseException | None] = []
    attempt = failing(ExceptionGroup("tasks", [Unreachable("first"), bug]), show=lambda: causes.append(error.cause))
    await keep_trying(attempt, error, "look", unexpected="see the log", sleep=Waits())
    assert causes == [None, bug]


async def test_only_retriable_errors_if_asked(error: CurrentError) -> None:
    waits = Waits()
    with pytest.raises(NotSupported):
        await keep_trying(
            failing(Unreachable("no broker"), NotSupported("too old")), error, "put", retriable_only=True, sleep=waits
        )
    assert len(waits.seconds) == 1


async def test_a_long_run_resets_backoff_and_error(error: CurrentError, caplog: pytest.LogCaptureFixture) -> None:
    runs = 0

    async def attempt() -> None:
        nonlocal runs
        runs += 1
        error.hide()
        if runs == 4:
            await asyncio.sleep(0.05)  # worked for long enough
        if runs < 6:
            raise Unreachable("no broker")

    waits = Waits()
    await keep_trying(attempt, error, "follow", stable_s=0.01, sleep=waits)
    assert waits.seconds[2] >= 3.2
    assert waits.seconds[3] <= 1.2  # starts again with the minimum
    assert len(caplog.records) == 2  # the same error once before the long run, and once after it


async def test_cancelling_ends_it(error: CurrentError) -> None:
    task = asyncio.create_task(keep_trying(failing(*[ClusterError("no")] * 9), error, "look"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert error.text == "cannot look: no"
