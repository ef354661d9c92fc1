"""Clusters for tests of the client that need no broker, or several."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.cluster import KafkaCluster


@pytest.fixture
def gone() -> Iterator[KafkaCluster]:
    """A cluster whose only broker does not run: connections are refused."""
    cluster = KafkaCluster("gone")
    yield cluster
    cluster.close()
