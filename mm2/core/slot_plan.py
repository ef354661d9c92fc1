"""The lists of a flow's slots as its leader changes them: a partition is taken from one slot before another gets it.

What a slot's owner runs is known from its reports (`slot_reports`); what it was told before it last reported it may
still be running.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from mm2.core.exact_offset_records import TopicIds
from mm2.core.names import TopicPartition
from mm2.core.slot_records import SlotBook, SlotRecord
from mm2.core.slot_reports import SlotReport

Partitions = frozenset[TopicPartition]

_NOTHING: Partitions = frozenset()


class SlotPlan:
    """One leader's, from what its predecessors published.

    Invariants: (A) a partition is in at most one list, and comes into one only when no other slot may be running it.
    (B) who runs nothing holds up nobody: a slot without an owner is taken for empty. (C) lists change only by `due`,
    which says the whole of what changes, to be published together.
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
        """Partitions that are wanted and in no list yet."""
        return _NOTHING.union(*self._wanted.values()) - _NOTHING.union(*(one.partitions for one in self._all()))

    def want(self, slots: Sequence[Collection[TopicPartition]], topic_ids: Mapping[str, TopicIds]) -> None:
        """What slot 0, 1 and so on should copy in the end. ``topic_ids``: of topics whose ids are known."""
        self._wanted = {slot: frozenset(partitions) for slot, partitions in enumerate(slots)}
        self._topic_ids = topic_ids

    def owned(self, owners: Mapping[int, str]) -> None:
        """Who runs each slot, by member id, or is to let it go; slots left out are run by nobody."""
        self._owners = owners
        for slot in self._told.keys() - owners.keys():
            self._told[slot] = [self._lists[slot]]

    def heard(self, report: SlotReport) -> None:
        """The newest report about a slot."""
        self._reports[report.slot] = report
        told = self._told.get(report.slot, [])
        if self._speaks(report):
            self._told[report.slot] = [one for one in told if one.age >= (report.epoch, report.version)]

    def confirmed(self, slot: int) -> bool:
        """Whether the slot's owner has said that it runs the newest list."""
        record, report = self._lists.get(slot), self._reports.get(slot)
        return record is not None and report is not None and self._speaks(report) and _is_about(report, record)

    def due(self) -> list[SlotRecord]:
        """The lists to publish now, if any; they count as published."""
        holders, unknown = self._who_may_run()
        listed = {partition for record in self._all() for partition in record.partitions}
        changed = []
        for slot in sorted(self._wanted.keys() | self._lists.keys()):
            wanted, record = self._wanted.get(slot, _NOTHING), self._lists.get(slot)
            kept = record.partitions if record is not None else _NOTHING
            partitions = frozenset(
                one
                for one in wanted
                if one in kept or (holders.get(one, {slot}) == {slot} and (one in listed or not unknown - {slot}))
            )
            topics = {partition.topic for partition in partitions}
            ids = {topic: self._topic_ids[topic] for topic in topics & self._topic_ids.keys()}
            if record is None or partitions != record.partitions or self._other_ids(ids, record):
                if record is None and not partitions:
                    continue
                changed.append(self._next(slot, record, partitions, ids))
        for record in changed:
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

    def _who_may_run(self) -> tuple[dict[TopicPartition, set[int]], set[int]]:
        """The slots that may be running each partition, and those of which it is not known what they run."""
        holders: dict[TopicPartition, set[int]] = {}
        unknown: set[int] = set()
        for slot, told in self._told.items():
            if slot not in self._owners:
                continue
            report = self._reports.get(slot)
            if report is None or not self._speaks(report) or not any(_is_about(report, one) for one in told):
                unknown.add(slot)
            for record in told:
                for partition in record.partitions:
                    holders.setdefault(partition, set()).add(slot)
        return holders, unknown

    def _speaks(self, report: SlotReport) -> bool:
        """Whether it is its owner who reports about the slot."""
        return self._owners.get(report.slot) == report.member

    def _all(self) -> Iterable[SlotRecord]:
        return self._lists.values()


def _is_about(report: SlotReport, record: SlotRecord) -> bool:
    return (report.epoch, report.version) == record.age
