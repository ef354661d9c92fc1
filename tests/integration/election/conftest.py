"""One ZooKeeper and one Kafka cluster for all election tests; each test uses its own election by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from tests.integration.election.members import Watched, info, names, watched
from tests.integration.election.stores import KAFKA_PROPERTIES, KafkaStore, Store, ZooKeeperStore, elect
from tests.lab.cluster import KafkaCluster
from tests.lab.zookeeper import ZooKeeperServer

Join = Callable[..., AbstractAsyncContextManager[Watched]]


@pytest.fixture(scope="package")
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture(scope="package")
def group_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("groups", properties=KAFKA_PROPERTIES) as cluster:
        yield cluster


@pytest.fixture(params=["kafka", "zookeeper"])
def store(request: pytest.FixtureRequest) -> Store:
    """Runs a test with each backend. A new backend is added here."""
    if request.param == "kafka":
        return KafkaStore(request.getfixturevalue("group_cluster"))
    return ZooKeeperStore(request.getfixturevalue("zookeeper"))


@pytest.fixture
def name(unique: Callable[[str], str]) -> str:
    return unique("A-mm2")


@pytest.fixture
def join(store: Store, name: str) -> Join:
    """Create a member by its node ID."""

    @asynccontextmanager
    async def joining(node: str, **options: Any) -> AsyncIterator[Watched]:
        making = elect(store.kind, store.where, name, info(node), names, **options)
        async with making as election, watched(election) as one:
            yield one

    return joining
