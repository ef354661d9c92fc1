"""Partitions that operators have copied again (``mm2 copy-again``): what is asked for, what is running, what was done.

The leader stores the last repeat of each partition in ``mm2-configs.*``, for all nodes and later leaders:

    mm2-repeat-<topic>-<partition>      {"number":1,"state":"started","first":0,"until":1000,"at":1763740800000,
                                         "changed":1763740801000,"by":"alice","reason":"CHG-1234","topicId":"…"}

``first`` is the source offset from which the partition is copied again, ``until`` the first one that had not been
copied when that began (null: not known yet). ``at``: when it was requested, ``changed``: when it got its state, in
epoch milliseconds. ``note``: why it was cancelled. Java skips unknown keys (KafkaConfigBackingStore).

         request             its source task has drained      the start is stored        caught up with `until`
    ─────────────► REQUESTED ────────────────► STORING ──────────────────────► STARTED ─────────────────► DONE
                       └──────────────────────────┴──► CANCELLED: nothing is to be repeated, or the topic is gone

Invariants:
(A) A partition that is REQUESTED or STORING is in no list of a source task (`SourceTaskPlan`), so that no lane stores
    an offset of it. It is listed again when the repeat is STARTED or CANCELLED.
(B) The start is stored only while the repeat is STORING. A leader that finds it in this state stores it again, which is
    the same: nothing was copied in between.
(C) ``number`` increases with each repeat of a partition. A lane that has copied the partition before takes the start of
    a lease with a higher number, although it knows a later position itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from mm2.core.coordination.query_history import QueryHistory
from mm2.core.naming.names import TopicPartition
from mm2.core.problems.times_in_words import utc_text
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

_PREFIX = b"mm2-repeat-"
_KEY = re.compile(r"mm2-repeat-(.+)-(\d{1,9})")

_INT64_MAX = 2**63 - 1

_YEAR_10000_MS = 253_402_300_800_000

MOST_NAMED = 20
"""Partitions that a message names: a screen."""


class RepeatState(StrEnum):
    """See the module's docstring."""

    REQUESTED = "requested"
    STORING = "storing"
    STARTED = "started"
    DONE = "done"
    CANCELLED = "cancelled"


_PENDING = frozenset({RepeatState.REQUESTED, RepeatState.STORING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """The last repeat of one partition; fields as in the record. ``topic_id``: of the source topic; None: unknown."""

    partition: TopicPartition
    number: int
    state: RepeatState
    first: int
    until: int | None = None
    at: int
    changed: int
    by: str
    reason: str | None = None
    topic_id: UUID | None = None
    note: str | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the partition is in no list, because its start is not stored yet: (A)."""
        return self.state in _PENDING

    @property
    def is_open(self) -> bool:
        """Whether it is not known to be over."""
        return self.is_pending or self.state is RepeatState.STARTED

    @property
    def has_started(self) -> bool:
        """Whether its start was stored, whatever became of it then."""
        return not self.is_pending and self.until is not None

    @property
    def last_word(self) -> str:
        """What has become of it, as an event of the partition."""
        offsets = f"offset {self.first}" if self.until is None else f"offsets {self.first}-{self.until - 1}"
        match self.state:
            case RepeatState.REQUESTED | RepeatState.STORING:
                return f"waiting until its offset is stored, to copy again from offset {self.first}"
            case RepeatState.STARTED:
                return f"copying {offsets} again"
            case RepeatState.DONE:
                return f"copied {offsets} again"
            case RepeatState.CANCELLED:
                return f"not copied again from offset {self.first}: {self.note}"
        assert_never(self.state)

    @property
    def events(self) -> tuple[tuple[int, str], ...]:
        """When it was requested, and what has become of it since when (epoch ms), as events of the partition."""
        why = "" if self.reason is None else f": {self.reason}"
        request = self.at, f"{self.by} requested to copy it again from offset {self.first}{why}"
        return request, (self.changed, self.last_word)

    def moved(self, state: RepeatState, now: int, *, first: int | None = None, until: int | None = None) -> Repeat:
        """Return it in its next state since ``now``, epoch milliseconds."""
        return replace(
            self,
            state=state,
            changed=now,
            first=self.first if first is None else first,
            until=self.until if until is None else until,
        )

    def cancelled(self, note: str, now: int) -> Repeat:
        """Return it as cancelled, since ``now``, because of ``note``."""
        return replace(self, state=RepeatState.CANCELLED, changed=now, note=note)

    def is_of_another(self, topic_id: UUID | None) -> bool:
        """Return whether it is known that it is not of the topic with this ID, but of another one of the same name."""
        return None not in (topic_id, self.topic_id) and self.topic_id != topic_id


class Repeats:
    """The last repeat of every partition that was ever copied again, from records in the order of the topic."""

    def __init__(self) -> None:
        self._repeats: dict[TopicPartition, Repeat] = {}
        self._pending: frozenset[TopicPartition] = frozenset()
        self._open: tuple[Repeat, ...] = ()

    def take(self, key: bytes | None, value: bytes | None) -> bool:
        """Apply one record; return whether it is a change. A null value deletes. Raises FormatError."""
        partition = _decode_key(key)
        repeat = None if value is None else _decode(partition, value)
        before = self._repeats.pop(partition, None)
        if repeat is not None:
            self._repeats[partition] = repeat
        if repeat != before:
            self._open = tuple(one for _, one in sorted(self._repeats.items()) if one.is_open)
            self._pending = frozenset(one.partition for one in self._open if one.is_pending)
        return repeat != before

    def of(self, partition: TopicPartition) -> Repeat | None:
        """Return the last repeat of the partition; None: it was never copied again, as far as is known."""
        return self._repeats.get(partition)

    @property
    def pending(self) -> frozenset[TopicPartition]:
        """The partitions that must be in no list; the same object until that changes."""
        return self._pending

    @property
    def open(self) -> tuple[Repeat, ...]:
        """The repeats that are not known to be over, by partition; the same object until that changes."""
        return self._open

    def number(self, partition: TopicPartition) -> int:
        """Return the number of the last repeat of the partition whose start is stored; 0: there was none."""
        repeat = self._repeats.get(partition)
        if repeat is None:
            return 0
        return repeat.number if repeat.has_started else repeat.number - 1

    def repeats(self, partition: TopicPartition, position: int) -> bool:
        """Return whether source offset ``position`` of the partition is copied again."""
        repeat = self._repeats.get(partition)
        if repeat is None or not repeat.is_open:
            return False
        return repeat.until is None or position < repeat.until

    def copied_until(self, partition: TopicPartition, topic_id: UUID | None) -> int:
        """Return up to which source offset the topic with this ID was copied before it is copied again; 0: unknown."""
        repeat = self._repeats.get(partition)
        if repeat is None or repeat.state is not RepeatState.STARTED or topic_id is None or repeat.topic_id != topic_id:
            return 0
        return repeat.until or 0


def is_repeat_key(key: bytes | None) -> bool:
    """Return whether the key is that of a repeat."""
    return key is not None and key.startswith(_PREFIX)


def encode_repeat(repeat: Repeat) -> tuple[bytes, bytes]:
    """Return key and value of the record."""
    key = f"mm2-repeat-{repeat.partition.topic}-{repeat.partition.partition}"
    value = {
        "number": repeat.number,
        "state": str(repeat.state),
        "first": repeat.first,
        "until": repeat.until,
        "at": repeat.at,
        "changed": repeat.changed,
        "by": repeat.by,
        "reason": repeat.reason,
        "topicId": None if repeat.topic_id is None else str(repeat.topic_id),
        "note": repeat.note,
    }
    given = {name: one for name, one in value.items() if one is not None}
    return key.encode(), json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode()


def _decode_key(key: bytes | None) -> TopicPartition:
    found = _KEY.fullmatch((key or b"").decode(errors="replace"))
    if found is None:
        raise FormatError(f"cannot read repeat: invalid key: {key!r:.200}")
    return TopicPartition(found[1], int(found[2]))


def _decode(partition: TopicPartition, value: bytes) -> Repeat:
    match decode_json(value, "repeat"):
        case {
            "number": int(number),
            "state": str(state),
            "first": int(first),
            "at": int(at),
            "changed": int(changed),
            "by": str(by),
            **others,
        } if state in list(RepeatState) and 0 <= first <= _INT64_MAX and _is_time(at) and _is_time(changed):
            until = others.get("until")
            return Repeat(
                partition=partition,
                number=number,
                state=RepeatState(state),
                first=first,
                until=until if isinstance(until, int) else None,
                at=at,
                changed=changed,
                by=by,
                reason=_text(others.get("reason")),
                topic_id=_id(others.get("topicId")),
                note=_text(others.get("note")),
            )
    raise FormatError(f"cannot read repeat: not {{number, state, first, at, changed, by}}: {value!r:.200}")


def _is_time(ms: int) -> bool:
    return 0 <= ms < _YEAR_10000_MS


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _id(value: object) -> UUID | None:
    try:
        return UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None


# -- decisions


class RefusedRepeatError(Exception):
    """A partition cannot be copied again from there; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FromOffset:
    """Copy again from this source offset."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FromTime:
    """Copy again from the first record with this time or a later one, in epoch milliseconds.

    ``offset`` is that of the record, as the source has told it; None: it has none.
    """

    time: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class FromEarliest:
    """Copy again everything that the source still has."""


RepeatStart = FromOffset | FromTime | FromEarliest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRepeat:
    """Source offsets ``first`` up to, not including, ``until`` of ``partition`` are copied again."""

    partition: TopicPartition
    first: int
    until: int

    @property
    def offsets(self) -> int:
        """The number of source offsets: at most as many records are copied again."""
        return self.until - self.first


def plan_repeat(
    partition: TopicPartition, start: RepeatStart, *, stored: int | None, earliest: int
) -> PlannedRepeat | str:
    """Return what is copied again of a partition, or why there is nothing to copy again.

    ``stored``: the next source offset to copy, as it is stored; None: none is. ``earliest``: the source's log start.
    Raises RefusedRepeatError if records would be skipped, or if the source no longer has the record at an offset.
    """
    if stored is None:
        return f"nothing of {partition} is copied yet"
    match start:
        case FromOffset(offset=offset):
            if offset > stored:
                raise RefusedRepeatError(
                    f"offset {offset} of {partition} is not copied yet, so the records before it would be skipped:"
                    f" copying continues at offset {stored}"
                )
            if offset < earliest:
                raise RefusedRepeatError(
                    f"the source has deleted offset {offset} of {partition}: its log starts at offset {earliest}"
                )
            first = offset
        case FromTime(time=time, offset=found):
            if found is None or found >= stored:
                return f"no record of {partition} since {utc_text(time / 1_000)} is copied yet"
            first = max(found, earliest)
        case FromEarliest():
            first = earliest
        case _:
            assert_never(start)
    if first >= stored:
        return f"{partition} has no record before offset {stored}, where copying continues"
    return PlannedRepeat(partition=partition, first=first, until=stored)


def requested(
    plan: PlannedRepeat, *, number: int, by: str, reason: str | None, topic_id: UUID | None, now: int
) -> Repeat:
    """Return the repeat as it is requested. ``number``: as in `Repeats.number`. ``now``: epoch milliseconds."""
    return Repeat(
        partition=plan.partition,
        number=number + 1,
        state=RepeatState.REQUESTED,
        first=plan.first,
        at=now,
        changed=now,
        by=by,
        reason=reason,
        topic_id=topic_id,
    )


def drained(repeat: Repeat, *, stored: int | None, earliest: int, now: int) -> Repeat:
    """Return a pending repeat in its next state, when no source task runs the partition.

    ``stored`` and ``earliest`` as in `plan_repeat`, read after that; ``now``: epoch milliseconds. What the source has
    deleted since the request is left out.
    """
    if repeat.state is RepeatState.STORING:  # the start may be stored already: (B)
        return repeat
    if stored is None:
        return repeat.cancelled("no offset is stored", now)
    first = max(repeat.first, earliest)
    if first >= stored:
        return repeat.cancelled(f"the source has no record before offset {stored}, where copying continues", now)
    return repeat.moved(RepeatState.STORING, now, first=first, until=stored)


def unknown_history(repeats: Collection[PlannedRepeat], histories: Mapping[TopicPartition, QueryHistory]) -> str | None:
    """Return which of the partitions under a query are copied again from where it is unknown what was applied to them.

    ``histories``: of the partitions to which a query applies or has applied. None: it is known of all.
    """
    unknown = [
        one.partition
        for one in repeats
        if one.partition in histories and not histories[one.partition].is_known_from(one.first)
    ]
    return None if not unknown else some_of(list(map(str, unknown)))


def some_of(names: Collection[str]) -> str:
    """Return at most `MOST_NAMED` of ``names``."""
    shown = list(names)[:MOST_NAMED]
    return ", ".join(shown) + (f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else "")
