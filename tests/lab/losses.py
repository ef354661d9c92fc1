"""What a flow has on record as lost, compared offset by offset with what is missing on the target."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from tests.lab.history import Partitions, Record, read_topic, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLoss:
    """One record of the losses topic: source offsets from ``first`` to ``last``, both included."""

    topic: str
    partition: int
    first: int
    last: int
    kind: str
    reason: str
    time: int

    def covers(self, record: Record) -> bool:
        """Return whether the offset of this source record is in the range."""
        return record.partition == self.partition and self.first <= record.offset <= self.last


class Ledger:
    """What a writer's brokers acknowledged, by partition and in order: what a source topic had, even if it lost it."""

    def __init__(self) -> None:
        self.written: defaultdict[int, list[Record]] = defaultdict(list)

    def __call__(self, message: Message) -> None:
        """Take an acknowledged record, as the hook of a `Writer`."""
        record = record_of(message)
        self.written[record.partition].append(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of source records. ``copied`` and ``recorded`` are numbers of records, some of which are both.

    ``missing``: neither on the target nor on record as lost. ``unexplained``: on the target, no longer on the source,
    and not on record.
    """

    copied: int
    recorded: int
    missing: tuple[Record, ...] = ()
    unexplained: tuple[Record, ...] = field(default=())

    def __str__(self) -> str:
        shown = [f"{self.copied} copied, {self.recorded} on record as lost"]
        for name, records in (("missing", self.missing), ("unexplained", self.unexplained)):
            if records:
                shown.append(f"{len(records)} {name}: {records[0]} ... {records[-1]}")
        return "; ".join(shown)

    @property
    def settled(self) -> bool:
        """Whether every record is copied or on record."""
        return not (self.missing or self.unexplained)


def recorded_losses(bootstrap: str, alias: str, topic: str) -> list[RecordedLoss]:
    """Return the losses of a source topic of cluster ``alias`` that are on record on the target."""
    newest: dict[bytes | None, bytes | None] = {}
    for one in read_topic(bootstrap, f"mm2-losses.{alias}.internal").get(0, ()):
        newest[one.content[0]] = one.content[1]
    found = [json.loads(value) for value in newest.values() if value is not None]
    names = RecordedLoss.__dataclass_fields__
    return [RecordedLoss(**{name: one[name] for name in names}) for one in found if one["topic"] == topic]


def account(
    written: Mapping[int, Sequence[Record]],
    remote: Partitions,
    losses: Sequence[RecordedLoss],
    *,
    still_there: Partitions | None = None,
) -> Account:
    """Look for every record of ``written`` on the target and in the losses.

    ``still_there``: what the source has at the end, if it may have lost records after they were copied.
    """
    copied = recorded = 0
    missing: list[Record] = []
    unexplained: list[Record] = []
    for partition, records in written.items():
        copies = {one.content for one in remote.get(partition, ())}
        kept = None if still_there is None else {one.content for one in still_there.get(partition, ())}
        for one in records:
            is_copied, is_recorded = one.content in copies, any(loss.covers(one) for loss in losses)
            copied += is_copied
            recorded += is_recorded
            if not (is_copied or is_recorded):
                missing.append(one)
            elif is_copied and not is_recorded and kept is not None and one.content not in kept:
                unexplained.append(one)
    return Account(copied=copied, recorded=recorded, missing=tuple(missing), unexplained=tuple(unexplained))
