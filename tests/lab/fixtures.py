"""Fixtures of the lab: shared clusters, separate clusters, unique names, logs of failed tests."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from tests.lab import processes, scratch, verify
from tests.lab.cluster import KafkaCluster
from tests.lab.jars import KAFKA_3, KAFKA_4

LOGS_SHOWN = 6  # of the newest programs: a three-broker cluster, its peer, a node and Java


class StartCluster(Protocol):
    """What the `start_cluster` fixture gives: `KafkaCluster`'s arguments to a running cluster."""

    def __call__(self, name: str = "kafka", **options: Any) -> KafkaCluster: ...


class ClusterOf(Protocol):
    """What the `cluster_of` fixture gives: a release to a shared broker of it."""

    def __call__(self, version: str) -> KafkaCluster: ...


@pytest.fixture(scope="session")
def cluster_a() -> Iterator[KafkaCluster]:
    """A single plain broker for the whole run, as source. Never stop it; name topics with `unique`."""
    with KafkaCluster("a") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster_b() -> Iterator[KafkaCluster]:
    """A single plain broker for the whole run, as target. Never stop it; name topics with `unique`."""
    with KafkaCluster("b") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster_3() -> Iterator[KafkaCluster]:
    """A single plain broker of the older release for the whole run. Never stop it; name topics with `unique`."""
    with KafkaCluster("older", version=KAFKA_3) as cluster:
        yield cluster


@pytest.fixture
def cluster_of(request: pytest.FixtureRequest) -> ClusterOf:
    """Gives a shared plain broker of a release. Never stop it; name topics with `unique`."""
    shared = {KAFKA_3: "cluster_3", KAFKA_4: "cluster_b"}

    def cluster(version: str) -> KafkaCluster:
        found: KafkaCluster = request.getfixturevalue(shared[version])
        return found

    return cluster


@pytest.fixture(scope="session")
def _breakable() -> Iterator[KafkaCluster]:
    quick = {"log.cleaner.backoff.ms": "100", "quota.window.num": "2", "quota.window.size.seconds": "1"}
    with KafkaCluster("breakable", properties=quick) as cluster:
        yield cluster


@pytest.fixture
def breakable(_breakable: KafkaCluster) -> KafkaCluster:
    """A single plain broker of this process that runs now; a test may freeze, kill or restart it, and leave it so.

    Name topics with `unique`. It cleans logs often, and enforces quotas within seconds.
    """
    return _breakable.heal()


@pytest.fixture
def start_cluster() -> Iterator[StartCluster]:
    """Starts clusters that stop with the test: for faults, security, several brokers, other versions."""
    with ExitStack() as ends:

        def start(name: str = "kafka", **options: Any) -> KafkaCluster:
            return ends.enter_context(KafkaCluster(name, **options))

        yield start


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Creates unique names for topics, groups, and aliases on shared clusters."""
    return unique_name


def unique_name(stem: str) -> str:
    """``orders`` to ``orders-3f9a1c2e``; letters, digits and a dash only, so that it is its own regular expression."""
    return f"{stem}-{uuid.uuid4().hex[:8]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Check the copies of a test once more after its body, while its fixtures still run."""
    verify.forget()
    yield
    verify.judge_again()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test's report ends with the logs of what the lab runs, and the logs are kept."""
    report = yield
    if report.failed and processes.started:
        scratch.keep_logs()
        recent = list(processes.started)[-LOGS_SHOWN:]
        report.sections.append(("lab", "\n".join(process.report() for process in recent)))
    return report
