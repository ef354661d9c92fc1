"""The client library against a cluster that responds too slowly to be read completely."""

from __future__ import annotations

import re
import time

import pytest

from mm2.client import CheckpointsIncomplete, MirrorClient
from tests.lab.checkpoints import Checkpoint, write_checkpoints
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.positions import positions
from tests.lab.quotas import set_quota
from tests.lab.waiting import require_within

GROUPS, PARTITIONS = 40, 1_000  # 40,000 checkpoints, 2 MB: several fetches
BYTES_PER_SECOND = (
    100_000  # over ten seconds: three responses, then the broker mutes the connection for longer than the client waits
)
TIMEOUT = 4.0  # seconds
EVERYTHING = re.compile(".*")


def test_error_contains_checkpoints_read_before_timeout(cluster_a: KafkaCluster) -> None:
    """Partial results are never returned as complete, unlike in Java's client."""
    alias = unique_name("A")
    topic = cluster_a.create_topic(f"{alias}.checkpoints.internal")
    written = [
        Checkpoint(group=f"g{group}", topic="A.orders", partition=partition, upstream=partition, downstream=partition)
        for group in range(GROUPS)
        for partition in range(PARTITIONS)
    ]
    write_checkpoints(cluster_a, topic, written)
    with MirrorClient({"bootstrap.servers": cluster_a.bootstrap}) as client:
        with set_quota(cluster_a, "consumer_byte_rate", BYTES_PER_SECOND):
            began = time.monotonic()
            with pytest.raises(CheckpointsIncomplete, match=r"within 4 s") as caught:
                client.remote_consumer_offsets(EVERYTHING, alias, TIMEOUT)
            require_within(time.monotonic() - began, 3 * TIMEOUT, "the client gives up")
        read = caught.value.offsets
        assert 0 < sum(map(len, read.values())) < len(written)
        expected = {(one.group, *item) for one in written for item in positions(one).items()}
        assert {(group, *item) for group, offsets in read.items() for item in offsets.items()} < expected
        everything = client.remote_consumer_offsets(EVERYTHING, alias, 60)
        assert sum(map(len, everything.values())) == len(written)
