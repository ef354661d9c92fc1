"""What operators read about partitions without a stored offset of which the target has copies."""

from __future__ import annotations

from mm2.core.lanes.losses import accept_command
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.settings.client import FetchSettings, OffsetReset


def start_setting(fetch: FetchSettings) -> str:
    """Return the setting that decides where partitions without a stored offset start."""
    if fetch.start is None:
        return f"auto.offset.reset = {fetch.auto_offset_reset}"
    if isinstance(fetch.start, OffsetReset):
        return f"mm2.start = {fetch.start}"
    return "the time of mm2.start"


def lost_offset(
    partition: TopicPartition, remote: TopicPartition, *, flow: Flow, offsets_topic: str, fetch: FetchSettings
) -> str:
    """Return why the partition is stopped, and the command that starts it."""
    return (
        f"{_beginning(partition)} in {offsets_topic}, although {remote} has records: they would be copied again, or"
        f" others left out. Its stored offset was deleted or expired, or another program copied them. To start it at"
        f" {start_setting(fetch)}: {accept_command(partition, flow)}"
    )


def is_lost_offset(partition: TopicPartition, error: str | None) -> bool:
    """Return whether ``error`` of the partition is a `lost_offset`."""
    return error is not None and error.startswith(_beginning(partition))


def unknown_copies(partition: TopicPartition, remote: TopicPartition, error: Exception) -> str:
    """Return why a partition without a stored offset waits."""
    return f"{partition} has no stored offset; cannot find out whether {remote} has copies: {error}"


def _beginning(partition: TopicPartition) -> str:
    return f"no offset of {partition} is stored"
