"""Checkpoints as the client library answers with them."""

from __future__ import annotations

from mm2.client import OffsetAndMetadata, TopicPartition
from tests.lab.checkpoints import Checkpoint


def positions(*checkpoints: Checkpoint) -> dict[TopicPartition, OffsetAndMetadata]:
    """Where a group goes on by these, one of each partition."""
    return {
        TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.downstream, one.metadata) for one in checkpoints
    }
