"""Rules for every test: its tier and order, the run's seed, what it needs, and that it leaves nothing running."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import random
import secrets
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import Scheduling

from mm2.core.masking import Mask, masked
from tests.lab import spark_jvm, tools
from tests.lab.confirm import FailureRecorder
from tests.lab.durations import DurationRecorder
from tests.lab.examples import PROFILE
from tests.lab.processes import LAUNCHER_THREAD
from tests.lab.stages import StageScheduling
from tests.lab.waiting import GaveUp, wait_until

# Programs that tests start import hundreds of modules. Where the environment (often a container) forbids to store
# bytecode, each of them compiles these again: 1.6 s of CPU for a node, almost as much as the rest of its imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest_plugins = ["tests.lab.fixtures"]

# In the order they run: tests that fail in seconds come before those that need brokers.
TIERS = ("unit", "property", "golden", "snapshots", "contract", "integration", "parity", "faults", "bench")

SEED = int(os.environ.setdefault("MM2_SEED", str(secrets.randbits(32))))  # set, so that all processes of a run share it
THREAD_GRACE = 10.0  # seconds for a thread that has been told to end, on a busy machine
# The lab's own; the event loop's pool, which ends with the loop; those of logins and of
# message handlers, which the process keeps.
NOT_OF_THE_TEST = (LAUNCHER_THREAD, "asyncio_", "kerberos-", "login-", "message-handler")

# No time limits on two shared cores. `make test` always tries the same examples, `make test-long` tries new ones.
hypothesis.settings.register_profile("mm2", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("few", deadline=None, print_blob=True, derandomize=True, max_examples=20)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis.settings.load_profile(PROFILE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run tests marked long, too")


def pytest_configure(config: pytest.Config) -> None:
    spark_jvm.use()
    for tier in TIERS:
        config.addinivalue_line("markers", f"{tier}: tests/{tier}")
    config.addinivalue_line("markers", "long: takes minutes; runs with --long only (make test-long)")
    config.addinivalue_line("markers", "needs(tool): skipped where the tool of tests/lab/tools.py is not installed")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationRecorder(config))
        config.pluginmanager.register(FailureRecorder(config))
    if config.getoption("hypothesisseed", None) is None:
        config.option.hypothesisseed = str(SEED)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector away from modules and test items, which stay: else it examines them again and again."""
    gc.disable()
    found = yield
    gc.collect()
    gc.freeze()
    gc.enable()
    return found


def pytest_report_header() -> str:
    return f"seed: {SEED} (MM2_SEED={SEED} repeats it)"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """`--dist loadfile` keeps together what shares more than a file."""
    return StageScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("long"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("long")])
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    for item in items:
        item.add_marker(_tier(item))
        for mark in item.iter_markers("needs"):
            (tool,) = mark.args
            if tools.find(tool) is None:
                item.add_marker(pytest.mark.skip(tools.REASONS[tool]))
        if inspect.iscoroutinefunction(getattr(item, "obj", None)) and isinstance(item, pytest.Function):
            item.fixturenames.insert(0, "no_leaked_tasks")
    items.sort(key=lambda item: TIERS.index(_tier(item)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With MM2_NO_SKIPS=1 a skipped test has failed."""
    report = yield
    if report.skipped and tools.NO_SKIPS and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{reason} (MM2_NO_SKIPS=1)"
    return report


def _tier(item: pytest.Item) -> str:
    """The name of the directory under tests/ that the test lives in."""
    return item.path.relative_to(Path(__file__).parent).parts[0]


@pytest.fixture(autouse=True)
def own_mask() -> None:
    """Forget the secrets of other tests, which are ordinary words such as ``password`` and would be hidden here."""
    vars(masked).update(vars(Mask()))


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
