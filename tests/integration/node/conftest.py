"""A cluster of one broker whose clients work, but whose transactions do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.cluster import KafkaCluster


@pytest.fixture(scope="package")
def without_coordinator() -> Iterator[KafkaCluster]:
    """Its topic of transactions needs more replicas than there are brokers, as with Kafka's default and one broker."""
    with KafkaCluster("b", properties={"transaction.state.log.replication.factor": "3"}) as cluster:
        yield cluster
