"""Detection of copies that a converter of Java's MirrorMaker 2 changed, by comparison with the source.

MirrorMaker keeps timestamps, whatever converters do, so the record that a copy is of has the same timestamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class RecordPart(StrEnum):
    """What a converter changes: that of key.converter, value.converter or header.converter."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "header"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRecord:
    """The content of a record, with its timestamp in epoch ms."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int

    def part(self, part: RecordPart) -> object:
        """Return the key, the value or the headers."""
        return {RecordPart.KEY: self.key, RecordPart.VALUE: self.value, RecordPart.HEADERS: self.headers}[part]


def changed_parts(
    copy: ComparedRecord, originals: Sequence[ComparedRecord], *, reaches_end: bool
) -> frozenset[RecordPart]:
    """Return the parts in which ``copy`` differs from the record that it is of; none if it is equal, or if that record
    is unknown.

    A record without timestamp (-1) is unknown; so are batches that cannot be read, which have none, either.
    ``originals`` are consecutive records of the source around the stored offset. ``reaches_end``: there is none behind
    them.
    """
    if copy.timestamp_ms < 0:
        return frozenset()
    same_time = [place for place, one in enumerate(originals) if one.timestamp_ms == copy.timestamp_ms]
    behind = originals[same_time[-1] + 1 :] if same_time else ()
    if not reaches_end and not any(one.timestamp_ms > copy.timestamp_ms for one in behind):
        return frozenset()  # the record can be behind those that were read
    candidates = [originals[place] for place in same_time]
    if any(all(one.part(part) == copy.part(part) for part in RecordPart) for one in candidates):
        return frozenset()
    return frozenset(
        part for part in RecordPart if candidates and all(one.part(part) != copy.part(part) for one in candidates)
    )
