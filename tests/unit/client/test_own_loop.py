from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from mm2.client.own_loop import OwnLoop
from mm2.kafka.errors import ClusterClosed
from tests.lab.waiting import wait_until

NAME = "the loop of this test"
SOON = 5.0  # seconds for a thread to do what it was told


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


@asynccontextmanager
async def resource(said: list[str]) -> AsyncIterator[None]:
    said.append(f"opened on {threading.current_thread().name}")
    yield
    said.append(f"closed on {threading.current_thread().name}")


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


def test_the_resource_lives_on_the_loops_thread_until_close() -> None:
    said: list[str] = []
    loop = OwnLoop(resource(said), NAME)
    assert said == [f"opened on {NAME}"]
    assert loop.ask(double(21)) == 42
    loop.close()
    assert said[1:] == [f"closed on {NAME}"]
    assert not threads()
    loop.close()  # again is no mistake
    assert len(said) == 2


def test_a_what_opening_raises_comes_out_and_no_thread_is_left() -> None:
    @asynccontextmanager
    async def refusing() -> AsyncIterator[None]:
        raise ValueError("no such certificate")
        yield

    with pytest.raises(ValueError, match="no such certificate"):
        OwnLoop(refusing(), NAME)
    assert not threads()


def test_b_a_question_under_way_at_close_and_one_after_it_are_refused() -> None:
    begun, refused = threading.Event(), list[ClusterClosed]()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    def ask() -> None:
        with pytest.raises(ClusterClosed) as caught:
            loop.ask(endless())
        refused.append(caught.value)

    with opened() as loop:
        asking = threading.Thread(target=ask)
        asking.start()
        assert begun.wait(SOON)
    asking.join(SOON)
    assert len(refused) == 1
    with pytest.raises(ClusterClosed, match="the client is closed"):
        loop.ask(double(1))


def test_what_a_question_raises_comes_out() -> None:
    async def refuse() -> None:
        raise LookupError("no such topic")

    with opened() as loop, pytest.raises(LookupError, match="no such topic"):
        loop.ask(refuse())


def test_many_threads_ask_at_a_time() -> None:
    answers: list[int] = []
    with opened() as loop:
        asking = [threading.Thread(target=lambda n=n: answers.append(loop.ask(double(n)))) for n in range(20)]
        for one in asking:
            one.start()
        for one in asking:
            one.join(SOON)
    assert sorted(answers) == [2 * number for number in range(20)]


async def test_it_may_be_asked_where_a_loop_runs() -> None:
    with opened() as loop:
        assert loop.ask(double(4)) == 8


def test_c_a_loop_that_is_forgotten_ends() -> None:
    said: list[str] = []
    loop = OwnLoop(resource(said), NAME)
    assert loop.ask(double(1)) == 2
    del loop
    gc.collect()
    wait_until(lambda: not threads(), SOON, "the thread of a forgotten loop has ended")
    assert said[1:] == [f"closed on {NAME}"]
