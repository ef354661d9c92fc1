"""Checkpoints as returned by the client library."""

from __future__ import annotations

from mm2.client import OffsetAndMetadata, TopicPartition
from tests.lab.checkpoints import Checkpoint


def positions(*checkpoints: Checkpoint) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the group's positions from these checkpoints, one of each partition."""
    return {
        TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.downstream, one.metadata) for one in checkpoints
    }
