"""Positions of one cluster, and what they are on the other cluster of a flow."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.naming.names import TopicPartition
from mm2.core.positions.answer import PositionAnswer, Precision

EARLIEST = -2
"""Spark's offset for the beginning of a partition (JsonUtils.partitionOffsets). It is not a position: it remains as it
is, because the beginning of the remote partition misses no copied record."""

LATEST = -1
"""Spark's offset for the end of a partition, whatever that is when it is used. It has no place on another cluster."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The next offset to read of a partition, with the topic's name on its cluster."""

    topic: str
    partition: int
    offset: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedPosition:
    """A position, and the same one on the other cluster.

    ``reverse``: it was translated from ``remote``, the partition on the target, to ``source``. An offset is None if it
    is unknown: that of the answer if there is none, and that of the source if a time was given that only the target
    could answer. The other fields are those of `PositionAnswer`. ``group``: whose position it is.
    """

    source: TopicPartition
    source_offset: int | None
    remote: TopicPartition
    remote_offset: int | None
    precision: Precision
    reason: str
    read_again: int | None = None
    missing: int | None = None
    reverse: bool = False
    group: str | None = None

    @property
    def exact(self) -> bool:
        """Whether the answer is the copy of this very record."""
        return self.precision is Precision.EXACT

    @property
    def there(self) -> TopicPartition:
        """The partition of the answer."""
        return self.source if self.reverse else self.remote

    @property
    def answer(self) -> Position | None:
        """The position on the other cluster, if there is one."""
        offset = self.source_offset if self.reverse else self.remote_offset
        return None if offset is None else Position(self.there.topic, self.there.partition, offset)

    def __str__(self) -> str:
        asked = (self.remote, self.remote_offset) if self.reverse else (self.source, self.source_offset)
        place = f"{asked[0].topic}:{asked[0].partition}:{'-' if asked[1] is None else asked[1]}"
        answer = "left out" if self.answer is None else f"{self.precision} {self.answer}"
        group = "" if self.group is None else f"group {self.group}: "
        return f"{group}{place}: {answer}{self._details()}"

    def _details(self) -> str:
        parts = [self.reason] if self.reason else []
        if self.precision is Precision.CONSERVATIVE and self.answer is not None:
            again = "an unknown number of records is" if self.read_again is None else f"at most {self.read_again:,} are"
            parts.append(f"{again} read again")
        if self.missing is not None:
            parts.append(f"{self.missing:,} source offsets are not copied yet")
        return f" ({'; '.join(parts)})" if parts else ""

    def as_json(self) -> dict[str, object]:
        """Return it as ``mm2 translate --json`` and the REST interface have it."""
        source = {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "offset": self.source_offset,
        }
        remote = {
            "remote_topic": self.remote.topic,
            "remote_partition": self.remote.partition,
            "remote_offset": self.remote_offset,
        }
        asked = {**remote, **{f"source_{name}": value for name, value in source.items()}}
        return {
            **({} if self.group is None else {"group": self.group}),
            **(asked if self.reverse else {**source, **remote}),
            "precision": self.precision.value,
            "reason": self.reason,
            "read_again": self.read_again,
            "missing": self.missing,
        }


def translated(
    asked: Position, there: TopicPartition, answer: PositionAnswer, *, reverse: bool = False, group: str | None = None
) -> TranslatedPosition:
    """Return ``answer`` for the position ``asked``; ``there`` is the partition on the other cluster."""
    here = asked.topic_partition
    return TranslatedPosition(
        source=there if reverse else here,
        source_offset=answer.offset if reverse else asked.offset,
        remote=here if reverse else there,
        remote_offset=asked.offset if reverse else answer.offset,
        precision=answer.precision,
        reason=answer.reason,
        read_again=answer.read_again,
        missing=answer.missing,
        reverse=reverse,
        group=group,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionAnswers:
    """The answers in the order of the positions. ``notes``: what makes them less precise."""

    rows: tuple[TranslatedPosition, ...]
    notes: tuple[str, ...] = ()


class PositionsUnreadableError(Exception):
    """Positions of a flow cannot be translated now; ``is_unknown``: there is no such flow."""

    def __init__(self, text: str, *, is_unknown: bool = False) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown
