"""Topics of the source for which a regular expression of --include or --blacklist takes too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

import pytest

from mm2.config.plugins.filters import NamePattern
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import Metadata, PartitionInfo, TopicInfo
from mm2.mirror1.topics import SourceTopics
from tests.lab.loop_blocks import loop_blocks
from tests.lab.tasks import unconnected_cluster

LONGEST_BLOCK = 0.5  # seconds of CPU: ten times the limit of a match


class Source(Cluster):
    """A source with these topics of one partition."""

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(unconnected_cluster().settings)
        self._names = names

    async def metadata(self, topics: Collection[str] | None) -> Metadata:
        one = PartitionInfo(partition=0, leader=1, leader_epoch=0, replicas=(1,), in_sync=(1,))
        found = {
            name: TopicInfo(name=name, error=0, topic_id=None, is_internal=False, partitions=(one,))
            for name in self._names
        }
        return Metadata(cluster_id=None, controller=None, brokers={}, topics=found)


async def test_they_are_not_copied_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    slow = [f"{'a' * 240}{number}" for number in range(10)]
    matches = NamePattern.of(("orders|(a|aa)+c?d",), "--include")
    topics = SourceTopics(Source(["orders", *slow, "payments"]), matches, exclude_internal=True)
    with caplog.at_level(logging.WARNING), loop_blocks() as blocks:
        assert await topics.refresh()
        began = time.monotonic()
        assert not await topics.refresh()
        assert time.monotonic() - began < 2.0, "the second time it is known"
    assert topics.partitions == {"orders": 1}
    assert blocks.longest < LONGEST_BLOCK, blocks.callback
    assert len(caplog.messages) == len(slow)
    assert caplog.messages[0].startswith(f"topic {slow[0]} is not copied: --include = orders|(a|aa)+c?d: the regular")
