"""The lists of a flow's slots as its leader changes them: a partition is taken from one slot before another gets it.

What a slot's owner runs is known from its reports (`slot_reports`); what it was told before it last reported it may
still be running.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mm2.core.exact_offset_records import TopicIds
from mm2.core.names import TopicPartition
from mm2.core.slot_records import SlotBook, SlotRecord
from mm2.core.slot_reports import SlotReport

Partitions = frozenset[TopicPartition]

_NOTHING: Partitions = frozenset()


class SlotPlan:
    """One leader's, from what its predecessors published.

    Invariants: (A) a partition is in at most one list, and comes into one only when no other slot may be running it,
    nor may begin to: who is given a slot begins with the newest list that was published by then. (B) a slot without an
    owner holds up nobody for longer than it takes to publish its list. (C) lists change only by `due`, which says the
    whole of what changes, to be published together.
    """

    def __init__(self, book: SlotBook, epoch: int) -> None:
        """``epoch`` is higher than any in ``book`` (`SlotBook.epoch_of_next_leader`)."""
        self._epoch = epoch
        self._lists = dict(book.records)
        self._told: dict[int, list[SlotRecord]] = {slot: [record] for slot, record in book.records.items()}
        self._wanted: dict[int, Partitions] = {slot: record.partitions for slot, record in book.records.items()}
        self._topic_ids: Mapping[str, TopicIds] = {}
        self._owners: Mapping[int, str] = {}
        self._reports: dict[int, SlotReport] = {}
        self._moving: Partitions | None = None

    @property
    def lists(self) -> Mapping[int, SlotRecord]:
        """What was published of each slot."""
        return self._lists

    @property
    def slots(self) -> Mapping[TopicPartition, int]:
        """The slot where each partition is, or is on its way to."""
        return {partition: slot for slot, partitions in self._wanted.items() for partition in partitions}

    @property
    def moving(self) -> Partitions:
        """Partitions that are wanted and in no list yet; the same object until that changes."""
        if self._moving is None:
            listed = (record.partitions for record in self._lists.values())
            self._moving = _NOTHING.union(*self._wanted.values()).difference(*listed)
        return self._moving

    def want(self, slots: Sequence[Collection[TopicPartition]], topic_ids: Mapping[str, TopicIds]) -> None:
        """What slot 0, 1 and so on should copy in the end. ``topic_ids``: of topics whose ids are known."""
        self._wanted = {slot: frozenset(partitions) for slot, partitions in enumerate(slots)}
        self._topic_ids = topic_ids
        self._moving = None

    def owned(self, owners: Mapping[int, str]) -> None:
        """Who runs each slot, by member id, or is to let it go; slots left out are run by nobody. To be said before a
        new owner hears of it."""
        self._owners = owners
        for report in self._reports.values():
            self._believe(report)

    def heard(self, report: SlotReport) -> None:
        """The newest report about a slot."""
        self._reports[report.slot] = report
        self._believe(report)

    def confirmed(self, slot: int) -> bool:
        """Whether the slot's owner has said that it runs the newest list."""
        record, report = self._lists.get(slot), self._reports.get(slot)
        return record is not None and report is not None and self._speaks(report) and _is_about(report, record)

    def due(self) -> list[SlotRecord]:
        """The lists to publish now, if any. To be called again when these are published, and not before."""
        for slot in self._lists.keys() - self._owners.keys():
            self._told[slot] = [self._lists[slot]]  # whoever is given it from now on begins with this one
        holders, unknown = self._who_may_run()
        changed = []
        for slot in sorted(self._wanted.keys() | self._lists.keys()):
            wanted, record = self._wanted.get(slot, _NOTHING), self._lists.get(slot)
            kept = record.partitions if record is not None else _NOTHING
            free = not unknown - {slot}
            partitions = frozenset(
                one for one in wanted if one in kept or (free and holders.get(one, {slot}) == {slot})
            )
            topics = {partition.topic for partition in partitions}
            ids = {topic: self._topic_ids[topic] for topic in topics & self._topic_ids.keys()}
            if record is None:
                outdated = bool(partitions)
            else:
                outdated = partitions != record.partitions or self._other_ids(ids, record) or self._overtaken(record)
            if outdated:
                changed.append(self._next(slot, record, partitions, ids))
        for record in changed:
            self._moving = None
            self._lists[record.slot] = record
            self._told.setdefault(record.slot, []).append(record)
        return changed

    def _next(
        self, slot: int, record: SlotRecord | None, partitions: Partitions, ids: Mapping[str, TopicIds]
    ) -> SlotRecord:
        version = record.version + 1 if record is not None and record.epoch == self._epoch else 1
        return SlotRecord(slot=slot, epoch=self._epoch, version=version, partitions=partitions, topic_ids=ids)

    def _other_ids(self, ids: Mapping[str, TopicIds], record: SlotRecord) -> bool:
        """Whether some are known to be others than were published; before a discovery nothing is known."""
        return any(record.topic_ids.get(topic) != known for topic, known in ids.items())

    def _overtaken(self, record: SlotRecord) -> bool:
        """Whether the owner runs a newer list than was read: a predecessor wrote it late, where the broker does not
        refuse it. What is in that list is not known; ours makes it void."""
        report = self._reports.get(record.slot)
        if report is None or not self._speaks(report) or report.epoch >= self._epoch:
            return False
        return (report.epoch, report.version) > record.age

    def _who_may_run(self) -> tuple[dict[TopicPartition, set[int]], set[int]]:
        """The slots that may be running each partition, and those of which it is not known what they run."""
        holders: dict[TopicPartition, set[int]] = {}
        unknown: set[int] = set()
        for slot in self._told.keys() | self._owners.keys():
            told, report = self._told.get(slot, []), self._reports.get(slot)
            known = report is not None and self._speaks(report) and any(_is_about(report, one) for one in told)
            if slot in self._owners and not known:
                unknown.add(slot)
            for record in told:
                for partition in record.partitions:
                    holders.setdefault(partition, set()).add(slot)
        return holders, unknown

    def _believe(self, report: SlotReport) -> None:
        """The slot runs nothing any more that only older lists had, if it is its owner who says so."""
        if self._speaks(report):
            told = self._told.get(report.slot, [])
            self._told[report.slot] = [one for one in told if one.age >= (report.epoch, report.version)]

    def _speaks(self, report: SlotReport) -> bool:
        """Whether it is its owner who reports about the slot."""
        return self._owners.get(report.slot) == report.member


def _is_about(report: SlotReport, record: SlotRecord) -> bool:
    return (report.epoch, report.version) == record.age
