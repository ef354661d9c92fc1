"""The partition lists of a flow's source tasks, and how the leader changes them: a partition is revoked from one source
task before it is assigned to another.

The owner of a source task reports which list it runs (`source_task_reports`); it may still run lists that it received
before its last report.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mm2.core.assignment.source_task_records import SourceTaskBook, SourceTaskRecord
from mm2.core.assignment.source_task_reports import SourceTaskReport
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds

Partitions = frozenset[TopicPartition]

NO_QUERIES: Mapping[int, str] = {}

_NOTHING: Partitions = frozenset()


class SourceTaskPlan:
    """The plan of one leader, starting from the lists that its predecessors published.

    Invariants:
    (A) A partition is in at most one list. It is added to a list only when no other source task may be running it or
        may start to: a new owner of a source task starts with the newest list published at that time.
    (B) A partition that another source task is to copy leaves a source task only after its owner has reported a list:
        a new owner has then fenced the previous one on all partitions of the list that it started with.
    (C) Lists change only through `due`, which returns all changes, to be published together.
    (D) Nodes repeat their reports. A repeated report costs nothing, and other work is proportional to the source tasks
        and to the partitions whose list changes.
    """

    def __init__(self, book: SourceTaskBook, epoch: int) -> None:
        """``epoch`` is higher than any in ``book`` (`SourceTaskBook.epoch_of_next_leader`)."""
        self._epoch = epoch
        self._lists = dict(book.records)
        self._possible: dict[int, list[SourceTaskRecord]] = {
            source_task: [record] for source_task, record in book.records.items()
        }
        self._wanted: dict[int, Partitions] = {
            source_task: record.partitions for source_task, record in book.records.items()
        }
        self._copied = _NOTHING.union(*self._wanted.values())
        self._topic_ids: Mapping[str, TopicIds] = {}
        self._queries: Mapping[int, str] | None = None
        self._owners: Mapping[int, str] = {}
        self._reports: dict[int, SourceTaskReport] = {}
        self._differing: set[int] = set()  # source tasks whose list is not what is wanted
        self._changed = True  # whether `due` can return anything
        self._moving: Partitions | None = None

    @property
    def lists(self) -> Mapping[int, SourceTaskRecord]:
        """The published list of each source task."""
        return self._lists

    @property
    def source_tasks(self) -> Mapping[TopicPartition, int]:
        """The source task that each partition belongs or is moving to."""
        return {partition: source_task for source_task, partitions in self._wanted.items() for partition in partitions}

    @property
    def moving(self) -> Partitions:
        """Partitions to be copied that are in no list yet; the same object until that changes."""
        if self._moving is None:
            listed = (record.partitions for record in self._lists.values())
            self._moving = _NOTHING.union(*self._wanted.values()).difference(*listed)
        return self._moving

    def want(
        self,
        source_tasks: Mapping[int, Collection[TopicPartition]],
        topic_ids: Mapping[str, TopicIds],
        queries: Mapping[int, str] = NO_QUERIES,
        *,
        held: Partitions = _NOTHING,
    ) -> None:
        """Set the partitions that each source task should copy, others none. ``topic_ids``: of topics with known IDs.

        The numbers can have gaps (`query_source_tasks`). ``queries``: the names of their queries, if they have one.
        ``held``: partitions that no source task may copy for now; when none does, `is_free` says so.
        """
        self._wanted = {source_task: frozenset(partitions) - held for source_task, partitions in source_tasks.items()}
        self._copied = _NOTHING.union(*self._wanted.values(), held)  # (B) applies to held partitions, too
        self._topic_ids = topic_ids
        self._queries = queries
        self._differing = set(filter(self._differs, self._wanted.keys() | self._lists.keys()))
        self._changed = True
        self._moving = None

    def owned(self, owners: Mapping[int, str]) -> None:
        """Set the owner of each source task by member ID, including owners that have to release theirs.

        Other source tasks have no owner. Call this before the assignment is sent to a new owner.
        """
        self._owners = owners
        self._changed = True
        for report in self._reports.values():
            self._apply_report(report)

    def take_report(self, report: SourceTaskReport) -> None:
        """Apply the newest report about a source task."""
        before = self._reports.get(report.source_task)
        self._reports[report.source_task] = report
        if before is None or (before.member, before.age) != (report.member, report.age):
            self._changed = True
            self._apply_report(report)

    def is_free(self, partition: TopicPartition) -> bool:
        """Return whether no source task may be running the partition or may start to: a held one has drained."""
        return not self._with_unknown_list() and not self._who_may_run(frozenset({partition}))

    def confirmed(self, source_task: int) -> bool:
        """Return whether the source task's owner has reported that it runs the newest list."""
        record, report = self._lists.get(source_task), self._reports.get(source_task)
        return record is not None and report is not None and self._is_from_owner(report) and _is_about(report, record)

    def due(self) -> list[SourceTaskRecord]:
        """Return the lists to publish now, if any. Call it again only after these have been published."""
        if not self._changed:
            return []
        for source_task in self._lists.keys() - self._owners.keys():
            self._possible[source_task] = [self._lists[source_task]]  # the next owner starts with this list
        void = {record.source_task for record in self._lists.values() if self._is_outdated(record)}
        added = {one: self._wanted.get(one, _NOTHING) - self._listed(one) for one in sorted(self._differing | void)}
        unknown = self._with_unknown_list()
        # with two of them no partition is free for any source task
        holders = self._who_may_run(_NOTHING.union(*added.values())) if len(unknown) < 2 else {}
        changed = []
        for source_task, missing in added.items():
            record = self._lists.get(source_task)
            free = not unknown - {source_task}
            blocked = {one for one in missing if holders.get(one, {source_task}) != {source_task}} if free else missing
            partitions = self._wanted.get(source_task, _NOTHING) - blocked
            if source_task not in self._owners or source_task in unknown:
                partitions |= self._leaving(source_task)
            ids = self._known_ids(partitions)
            if record is None:
                outdated = bool(partitions)
            else:
                outdated = partitions != record.partitions or self._ids_changed(ids, record) or source_task in void
                outdated |= self._query_changed(partitions, record)
            if outdated:
                changed.append(self._next(source_task, record, partitions, ids))
        for record in changed:
            self._moving = None
            self._lists[record.source_task] = record
            self._possible.setdefault(record.source_task, []).append(record)
            if not self._differs(record.source_task):
                self._differing.discard(record.source_task)
        self._changed = bool(changed)
        return changed

    def _leaving(self, source_task: int) -> Partitions:
        """Return the listed partitions that another source task is to copy."""
        return (self._listed(source_task) - self._wanted.get(source_task, _NOTHING)) & self._copied

    def _listed(self, source_task: int) -> Partitions:
        record = self._lists.get(source_task)
        return record.partitions if record is not None else _NOTHING

    def _differs(self, source_task: int) -> bool:
        """Return whether the list of the source task is not what is wanted, or a topic ID has changed."""
        partitions = self._wanted.get(source_task, _NOTHING)
        record = self._lists.get(source_task)
        if record is None:
            return bool(partitions)
        if partitions != record.partitions or self._query_changed(partitions, record):
            return True
        return self._ids_changed(self._known_ids(partitions), record)

    def _known_ids(self, partitions: Partitions) -> dict[str, TopicIds]:
        topics = {partition.topic for partition in partitions}
        return {topic: self._topic_ids[topic] for topic in topics & self._topic_ids.keys()}

    def _next(
        self, source_task: int, record: SourceTaskRecord | None, partitions: Partitions, ids: Mapping[str, TopicIds]
    ) -> SourceTaskRecord:
        version = record.version + 1 if record is not None and record.epoch == self._epoch else 1
        return SourceTaskRecord(
            source_task=source_task,
            epoch=self._epoch,
            version=version,
            partitions=partitions,
            topic_ids=ids,
            query=self._query_of(source_task, record),
        )

    def _query_of(self, source_task: int, record: SourceTaskRecord | None) -> str | None:
        """Return the query of a source task; before a discovery, the published one."""
        if self._queries is None:
            return None if record is None else record.query
        return self._queries.get(source_task)

    def _query_changed(self, partitions: Partitions, record: SourceTaskRecord) -> bool:
        return bool(partitions) and self._query_of(record.source_task, record) != record.query

    def _ids_changed(self, ids: Mapping[str, TopicIds], record: SourceTaskRecord) -> bool:
        """Return whether any known ID differs from the published one; before a discovery no ID is known."""
        return any(record.topic_ids.get(topic) != known for topic, known in ids.items())

    def _is_outdated(self, record: SourceTaskRecord) -> bool:
        """Return whether the owner runs a newer list than was read from the topic.

        A former leader wrote it late and the broker did not reject it. Its content is unknown; the next list of this
        leader makes it void.
        """
        report = self._reports.get(record.source_task)
        if report is None or not self._is_from_owner(report) or report.epoch >= self._epoch:
            return False
        return report.age > record.age

    def _with_unknown_list(self) -> set[int]:
        """Return the source tasks whose owner has reported none of the lists that it may be running."""
        unknown = set()
        for source_task in self._owners:
            report = self._reports.get(source_task)
            possible = self._possible.get(source_task, ())
            if report is None or not self._is_from_owner(report) or not any(_is_about(report, one) for one in possible):
                unknown.add(source_task)
        return unknown

    def _who_may_run(self, partitions: Partitions) -> dict[TopicPartition, set[int]]:
        """Return the source tasks that may be running each of these partitions."""
        holders: dict[TopicPartition, set[int]] = {}
        for source_task, possible in self._possible.items():
            for record in possible:
                for partition in record.partitions & partitions:
                    holders.setdefault(partition, set()).add(source_task)
        return holders

    def _apply_report(self, report: SourceTaskReport) -> None:
        """Drop the lists that, according to its owner's report, the source task no longer runs."""
        if self._is_from_owner(report):
            possible = self._possible.get(report.source_task, [])
            self._possible[report.source_task] = [one for one in possible if one.age >= report.age]

    def _is_from_owner(self, report: SourceTaskReport) -> bool:
        """Return whether the report is from the source task's owner."""
        return self._owners.get(report.source_task) == report.member


def _is_about(report: SourceTaskReport, record: SourceTaskRecord) -> bool:
    return report.age == record.age
