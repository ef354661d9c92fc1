"""From the records of a checkpoints topic to the offsets that groups go on from."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from mm2.core.formats import Checkpoint, FormatError
from mm2.core.names import TopicPartition
from mm2.kafka.stored_records import StoredRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """What a consumer group commits: the offset of the next record to read, and the text stored with it."""

    offset: int
    metadata: str = ""


GroupOffsets = dict[TopicPartition, OffsetAndMetadata]
"""Partitions and offsets of the cluster that was asked, not of the one the group lives on."""


class CheckpointFold:
    """Takes the records of a checkpoints topic in their order and keeps the last checkpoint of each group-partition.

    A. A record that is no checkpoint changes nothing: the one before it with the same key holds.
    B. A null value takes its key away, as compaction does sooner or later.
    """

    def __init__(self, selects: Callable[[str], bool]) -> None:
        self._selects = selects
        self._last: dict[bytes, Checkpoint] = {}
        self._skipped = 0
        self._first_skipped = ""

    def add(self, record: StoredRecord) -> None:
        if record.key is not None and record.value is None:
            self._last.pop(record.key, None)
            return
        try:
            checkpoint = Checkpoint.decode(record.key, record.value)
        except FormatError as error:
            self._skipped += 1
            self._first_skipped = self._first_skipped or f"offset {record.offset}: {error}"
            return
        if record.key is not None and self._selects(checkpoint.group):
            self._last[record.key] = checkpoint

    def offsets(self) -> dict[str, GroupOffsets]:
        """By group; only groups with checkpoints."""
        groups: defaultdict[str, GroupOffsets] = defaultdict(dict)
        for checkpoint in self._last.values():
            groups[checkpoint.group][checkpoint.topic_partition] = OffsetAndMetadata(
                checkpoint.downstream_offset, checkpoint.metadata
            )
        return dict(groups)

    def report(self, topic: str) -> None:
        """Say in the log how many records were skipped, if any."""
        if self._skipped:
            log.warning("%s: skipped %d records, the first at %s", topic, self._skipped, self._first_skipped)
