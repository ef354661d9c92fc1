from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from mm2.client.mirror_client import OwnLoop
from mm2.kafka.errors import ClusterClosed
from tests.lab.waiting import wait_until

NAME = "the loop of this test"
SOON = 5.0  # seconds for a thread to finish its work


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


@asynccontextmanager
async def resource(events: list[str]) -> AsyncIterator[None]:
    events.append(f"opened on {threading.current_thread().name}")
    yield
    events.append(f"closed on {threading.current_thread().name}")


@contextmanager
def opened() -> Iterator[OwnLoop]:
    loop = OwnLoop(resource([]), NAME)
    try:
        yield loop
    finally:
        loop.close()


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_resource_lives_on_the_loops_thread_until_close() -> None:
    events: list[str] = []
    loop = OwnLoop(resource(events), NAME)
    assert events == [f"opened on {NAME}"]
    assert loop.ask(double(21)) == 42
    loop.close()
    assert events[1:] == [f"closed on {NAME}"]
    assert not threads()
    loop.close()  # can be called twice
    assert len(events) == 2


def test_a_errors_while_opening_are_raised_and_no_thread_remains() -> None:
    @asynccontextmanager
    async def failing() -> AsyncIterator[None]:
        raise ValueError("no such certificate")
        yield

    with pytest.raises(ValueError, match="no such certificate"):
        OwnLoop(failing(), NAME)
    assert not threads()


def test_b_pending_and_later_calls_fail_after_close() -> None:
    started, rejected = threading.Event(), list[ClusterClosed]()

    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    def ask() -> None:
        with pytest.raises(ClusterClosed) as caught:
            loop.ask(endless())
        rejected.append(caught.value)

    with opened() as loop:
        asking = threading.Thread(target=ask)
        asking.start()
        assert started.wait(SOON)
    asking.join(SOON)
    assert len(rejected) == 1
    with pytest.raises(ClusterClosed, match="the client is closed"):
        loop.ask(double(1))


def test_errors_of_a_call_are_raised() -> None:
    async def fail() -> None:
        raise LookupError("no such topic")

    with opened() as loop, pytest.raises(LookupError, match="no such topic"):
        loop.ask(fail())


def test_calls_from_many_threads() -> None:
    answers: list[int] = []
    with opened() as loop:
        asking = [threading.Thread(target=lambda n=n: answers.append(loop.ask(double(n)))) for n in range(20)]
        for one in asking:
            one.start()
        for one in asking:
            one.join(SOON)
    assert sorted(answers) == [2 * number for number in range(20)]


async def test_calls_while_another_loop_is_running() -> None:
    with opened() as loop:
        assert loop.ask(double(4)) == 8


def test_c_unreferenced_loop_ends() -> None:
    events: list[str] = []
    loop = OwnLoop(resource(events), NAME)
    assert loop.ask(double(1)) == 2
    del loop
    gc.collect()
    wait_until(lambda: not threads(), SOON, "the thread of an unreferenced loop has ended")
    assert events[1:] == [f"closed on {NAME}"]
