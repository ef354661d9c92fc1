"""Retries until a deadline."""

from __future__ import annotations

import pytest

from mm2.core.settings.client import ClientSettings
from mm2.kafka.errors import NotSupported, Unreachable
from mm2.kafka.retrying import retried

SETTINGS = ClientSettings(bootstrap_servers=(), retry_backoff_ms=1, retry_backoff_max_ms=2)


class Flaky:
    """Fails the given number of times."""

    def __init__(self, failures: int, error: type[Exception] = Unreachable) -> None:
        self.calls = 0
        self._failures = failures
        self._error = error

    async def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error(f"failure {self.calls}")
        return "done"


async def test_the_first_success_is_returned() -> None:
    flaky = Flaky(3)
    assert await retried(flaky, SETTINGS, timeout_ms=10_000) == "done"
    assert flaky.calls == 4


async def test_an_error_that_is_not_retriable_is_raised_immediately() -> None:
    flaky = Flaky(3, NotSupported)
    with pytest.raises(NotSupported, match="failure 1"):
        await retried(flaky, SETTINGS, timeout_ms=10_000)


async def test_the_last_error_is_raised_after_the_deadline() -> None:
    flaky = Flaky(10**9)
    with pytest.raises(Unreachable):
        await retried(flaky, SETTINGS, timeout_ms=50)
    assert flaky.calls > 2


async def test_a_deadline_of_zero_tries_once() -> None:
    flaky = Flaky(10**9)
    with pytest.raises(Unreachable, match="failure 1"):
        await retried(flaky, SETTINGS, timeout_ms=0)
