"""Conversion of the records of a checkpoints topic to the offsets that groups continue from."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import Checkpoint, FormatError
from mm2.kafka.logs.stored_records import StoredRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset of a consumer group: the offset of the next record to read, and its metadata."""

    offset: int
    metadata: str = ""


GroupOffsets = dict[TopicPartition, OffsetAndMetadata]
"""Partitions and offsets on the client's cluster, not on the group's own cluster."""


class CheckpointFold:
    """Keeps the last checkpoint of each group and partition, from the records of a checkpoints topic in order.

    A. A record that is not a checkpoint changes nothing: the previous one with the same key remains valid.
    B. A null value removes its key, as compaction does eventually.
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
            if record.problem is not None:
                raise FormatError(record.problem)  # noqa: TRY301
            checkpoint = Checkpoint.decode(record.key, record.value)
        except FormatError as error:
            self._skipped += 1
            self._first_skipped = self._first_skipped or f"offset {record.offset}: {error}"
            return
        if record.key is not None and self._selects(checkpoint.group):
            self._last[record.key] = checkpoint

    def offsets(self) -> dict[str, GroupOffsets]:
        """Return the offsets by group; only groups with checkpoints."""
        groups: defaultdict[str, GroupOffsets] = defaultdict(dict)
        for checkpoint in self._last.values():
            groups[checkpoint.group][checkpoint.topic_partition] = OffsetAndMetadata(
                checkpoint.downstream_offset, checkpoint.metadata
            )
        return dict(groups)

    def report(self, topic: str) -> None:
        """Log how many records were skipped, if any."""
        if self._skipped:
            log.warning("%s: skipped %d records, the first at %s", topic, self._skipped, self._first_skipped)
