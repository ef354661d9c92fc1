from __future__ import annotations

import asyncio
import time

import pytest

from mm2.client.mirror_client import answered
from mm2.core.settings.client import ClientSettings
from mm2.kafka.errors import AuthenticationRefused, ClusterError, NotSupported, RequestTimedOut, TlsRefused, Unreachable

SETTINGS = ClientSettings(bootstrap_servers=("b:9092",), retry_backoff_ms=1, retry_backoff_max_ms=1)
NEVER = 600.0  # seconds, longer than any test


class Broker:
    """Raises the given errors one after another, then returns a result."""

    def __init__(self, *errors: ClusterError) -> None:
        self.left = list(errors)
        self.asked = 0

    async def answer(self) -> str:
        self.asked += 1
        if self.left:
            raise self.left.pop(0)
        return "topics"


async def test_retriable_errors_are_retried() -> None:
    broker = Broker(Unreachable("down"), RequestTimedOut("slow"))
    assert await answered(broker.answer, "list topics", SETTINGS, timeout=NEVER) == "topics"
    assert broker.asked == 3


@pytest.mark.parametrize(
    "error", [AuthenticationRefused("wrong password"), TlsRefused("not trusted"), NotSupported("too old")]
)
async def test_other_errors_are_raised_immediately(error: ClusterError) -> None:
    broker = Broker(error)
    with pytest.raises(type(error)):
        await answered(broker.answer, "list topics", SETTINGS, timeout=NEVER)
    assert broker.asked == 1


async def test_last_error_is_raised_at_the_deadline() -> None:
    async def down() -> str:
        raise Unreachable("nothing listens there")

    with pytest.raises(Unreachable, match="nothing listens there"):
        await answered(down, "list topics", SETTINGS, timeout=0.05)


async def test_hanging_attempt_is_cancelled_at_the_deadline() -> None:
    started = time.monotonic()
    with pytest.raises(RequestTimedOut, match=r"list topics: no response within 0\.05 s"):
        await answered(asyncio.Event().wait, "list topics", SETTINGS, timeout=0.05)
    assert time.monotonic() - started < 5  # not request.timeout.ms
