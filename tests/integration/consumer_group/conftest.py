"""A cluster of each supported generation of brokers for all tests of group members."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.jars import KAFKA_3, KAFKA_4

PROPERTIES = {"group.min.session.timeout.ms": "1000", "group.max.size": "3"}  # 6 s and unlimited by default

NEW_PROTOCOL = {  # 5 s by default
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}


@pytest.fixture(scope="package")
def new_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("new", version=KAFKA_4, properties=PROPERTIES | NEW_PROTOCOL) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def old_cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster("old", version=KAFKA_3, properties=PROPERTIES) as cluster:
        yield cluster


@pytest.fixture(params=["new", "old"])
def kafka(request: pytest.FixtureRequest) -> KafkaCluster:
    """Runs a test with each generation of brokers."""
    found = request.getfixturevalue(f"{request.param}_cluster")
    assert isinstance(found, KafkaCluster)
    return found


@pytest.fixture
def topic(unique: Callable[[str], str]) -> str:
    return unique("orders")


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("copiers")
