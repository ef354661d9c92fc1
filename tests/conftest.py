"""What holds for every test: its tier and order, the run's seed, and that nothing is left running."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import secrets
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import Scheduling

from tests.lab import spark_jvm
from tests.lab.processes import LAUNCHER_THREAD
from tests.lab.stages import StageScheduling
from tests.lab.waiting import GaveUp, wait_until

pytest_plugins = ["tests.lab.fixtures"]

# In the order they run: what fails in seconds comes before what needs brokers.
TIERS = ("unit", "property", "golden", "contract", "integration", "parity", "faults", "bench")

SEED = int(os.environ.setdefault("MM2_SEED", str(secrets.randbits(32))))  # set, so that all processes of a run share it
THREAD_GRACE = 2.0  # seconds for a thread that has been told to end
NOT_OF_THE_TEST = (LAUNCHER_THREAD, "asyncio_")  # the lab's own, and the event loop's pool, which ends with the loop

hypothesis.settings.register_profile("house", deadline=None, print_blob=True)  # two shared cores: no time limits
hypothesis.settings.load_profile("house")


def pytest_configure(config: pytest.Config) -> None:
    spark_jvm.use()
    for tier in TIERS:
        config.addinivalue_line("markers", f"{tier}: tests/{tier}")
    if config.getoption("hypothesisseed", None) is None:
        config.option.hypothesisseed = str(SEED)


def pytest_report_header() -> str:
    return f"seed: {SEED} (MM2_SEED={SEED} repeats it)"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """`--dist loadfile` keeps together what shares more than a file."""
    return StageScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(_tier(item))
        if inspect.iscoroutinefunction(getattr(item, "obj", None)) and isinstance(item, pytest.Function):
            item.fixturenames.insert(0, "no_leaked_tasks")
    items.sort(key=lambda item: TIERS.index(_tier(item)))


def _tier(item: pytest.Item) -> str:
    """The name of the directory under tests/ that the test lives in."""
    return item.path.relative_to(Path(__file__).parent).parts[0]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Randomness of this test alone, repeatable by the run's seed."""
    return random.Random(f"{SEED}:{request.node.nodeid}")


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """Fails a test that leaves a thread behind."""
    before = set(threading.enumerate())
    yield

    def none_left() -> bool:
        return not _threads_since(before)

    try:
        wait_until(none_left, THREAD_GRACE, "every thread of this test has ended")
    except GaveUp:
        pytest.fail(f"left running: {', '.join(_threads_since(before))}")


def _threads_since(before: set[threading.Thread]) -> list[str]:
    return [
        thread.name
        for thread in threading.enumerate()
        if thread not in before and not thread.name.startswith(NOT_OF_THE_TEST)
    ]


@pytest.fixture
async def no_leaked_tasks() -> AsyncIterator[None]:
    """Fails an async test that leaves a task behind; given to each of them on collection."""
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        pytest.fail("left running: " + "; ".join(f"{task.get_name()}: {task.get_coro()}" for task in left))
