"""The client library when a cluster answers too slowly to be read to its end."""

from __future__ import annotations

import re
import time

import pytest

from mm2.client import CheckpointsIncomplete, MirrorClient
from tests.faults.quotas import set_quota
from tests.lab.checkpoints import Checkpoint, write_checkpoints
from tests.lab.fixtures import StartCluster
from tests.lab.positions import positions

GROUPS, PARTITIONS = 40, 1_000  # 40,000 checkpoints, 2 MB: a handful of fetches
BYTES_PER_SECOND = 100_000  # over ten seconds: three answers, then the broker pauses for longer than the test asks
ASKED = 4.0  # seconds
EVERYTHING = re.compile(".*")


def test_what_was_read_in_time_is_in_the_error(start_cluster: StartCluster) -> None:
    """And is never taken for the whole, as it is by Java's client."""
    kafka = start_cluster("slow")
    topic = kafka.create_topic("A.checkpoints.internal")
    written = [
        Checkpoint(group=f"g{group}", topic="A.orders", partition=partition, upstream=partition, downstream=partition)
        for group in range(GROUPS)
        for partition in range(PARTITIONS)
    ]
    write_checkpoints(kafka, topic, written)
    with MirrorClient({"bootstrap.servers": kafka.bootstrap}) as client:
        with set_quota(kafka, "consumer_byte_rate", BYTES_PER_SECOND):
            begun = time.monotonic()
            with pytest.raises(CheckpointsIncomplete, match=r"not done within 4 s") as caught:
                client.remote_consumer_offsets(EVERYTHING, "A", ASKED)
            assert time.monotonic() - begun < 3 * ASKED
        read = caught.value.offsets
        assert 0 < sum(map(len, read.values())) < len(written)
        expected = {(one.group, *item) for one in written for item in positions(one).items()}
        assert {(group, *item) for group, offsets in read.items() for item in offsets.items()} < expected
        everything = client.remote_consumer_offsets(EVERYTHING, "A", 60)
        assert sum(map(len, everything.values())) == len(written)
