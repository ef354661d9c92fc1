"""Model of nodes that receive partition lists late, and of leaders that are replaced at any time.

Written independently of `mm2.core.assignment.source_task_plan`: this model does not know why a partition is in a list.
Of the code under test, a node uses only `SourceTaskBook`, as a real one does.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from mm2.core.assignment.source_task_plan import SourceTaskPlan
from mm2.core.assignment.source_task_records import (
    SourceTaskBook,
    SourceTaskRecord,
    decode_source_task,
    encode_source_task,
)
from mm2.core.assignment.source_task_reports import SourceTaskReport, decode_report
from mm2.core.naming.names import TopicPartition

PARTITIONS = [TopicPartition("t", number) for number in range(4)]
SOURCE_TASKS = (0, 1, 6)  # numbers have gaps if the flow has queries
NODES = 3

Partitions = frozenset[TopicPartition]


@dataclass
class Running:
    """A source task on a node.

    ``partitions``: what it really runs, which includes removed partitions of ``record`` until they have stopped.
    ``reported``: the last reported record, which is not reported twice.
    """

    record: SourceTaskRecord
    partitions: Partitions
    reported: SourceTaskRecord | None = None


@dataclass
class Node:
    """One member. ``position``: the number of records of the config topic that it has read."""

    member: str
    position: int = 0
    book: SourceTaskBook = field(default_factory=SourceTaskBook)
    source_tasks: dict[int, Running] = field(default_factory=dict)


class SourceTaskWorld:
    """The config topic, the reports, the nodes, and one leader at a time."""

    def __init__(self) -> None:
        self.configs: list[tuple[bytes, bytes]] = []  # committed
        self.reports: list[tuple[bytes, bytes]] = []
        self.nodes: dict[str, Node] = {}  # live nodes
        self.owners: dict[int, str] = {}  # as decided by the last round
        self.pending: list[tuple[int, str]] = []  # assigned, but not delivered yet
        self.generation = 0
        self.plan = SourceTaskPlan(SourceTaskBook(), 0)
        self.unpublished: list[SourceTaskRecord] = []
        self.received = 0
        self.wanted: dict[int, Partitions] = {}
        self._members = 0
        for _ in range(NODES):
            self.join()
        self.lead(1)

    # -- nodes

    def join(self) -> None:
        if len(self.nodes) < NODES:
            self._members += 1
            self.nodes[f"m-{self._members}"] = Node(f"m-{self._members}")

    def crash(self, number: int) -> None:
        if self.nodes:
            del self.nodes[sorted(self.nodes)[number % len(self.nodes)]]

    def read(self, node: Node, records: int) -> None:
        """Apply published lists. Added partitions start at once, removed ones stop later."""
        for record in self.configs[node.position : node.position + records]:
            node.book.take(decode_source_task(*record))
        node.position = min(len(self.configs), node.position + records)
        for source_task, running in node.source_tasks.items():
            running.record = node.book.records[source_task]
            running.partitions |= running.record.partitions

    def stop(self, node: Node) -> None:
        """Stop partitions that were removed from the lists."""
        for running in node.source_tasks.values():
            running.partitions = running.record.partitions

    def report(self, node: Node) -> None:
        for source_task, running in node.source_tasks.items():
            if running.partitions == running.record.partitions and running.record != running.reported:
                running.reported = running.record
                epoch, version = running.record.age
                message = SourceTaskReport(
                    source_task=source_task, epoch=epoch, version=version, member=node.member, node=node.member
                )
                self.reports.append((message.key(), message.value()))

    # -- rounds: source tasks are revoked and assigned as `mm2.core.assignment.rebalance` does it

    def release(self, source_task: int) -> None:
        """Release the source task: its owner has drained it."""
        for node in self.nodes.values():
            node.source_tasks.pop(source_task, None)

    def round(self, gives: int) -> None:
        """Run a round.

        Owners that released a source task or crashed lose it; up to ``gives`` source tasks with lists are assigned.
        """
        in_flight = {source_task for source_task, member in self.pending if member in self.nodes}
        for source_task, owner in list(self.owners.items()):
            running = owner in self.nodes and source_task in self.nodes[owner].source_tasks
            if not running and source_task not in in_flight:
                del self.owners[source_task]
        members = sorted(self.nodes)
        for source_task in sorted(self.plan.lists.keys() - self.owners.keys())[:gives] if members else ():
            self.owners[source_task] = members[(gives + source_task) % len(members)]
            self.pending.append((source_task, self.owners[source_task]))
        self.plan.owned(dict(self.owners))

    def deliver_assignment(self, number: int) -> None:
        """Deliver an assignment: the node reads everything that was published and starts the source task."""
        if not self.pending:
            return
        source_task, member = self.pending.pop(number % len(self.pending))
        node = self.nodes.get(member)
        if node is None:
            return
        self.read(node, len(self.configs))
        if source_task in node.book.records:
            record = node.book.records[source_task]
            node.source_tasks[source_task] = Running(record, record.partitions)

    # -- the leader

    def lead(self, number: int) -> None:
        """Change the leader. What its predecessor had not written is lost or has just been written."""
        if number % 2:
            self.unpublished = []
        self.publish()
        self.generation += 1
        book = SourceTaskBook()
        for record in self.configs:
            book.take(decode_source_task(*record))
        self.plan = SourceTaskPlan(book, book.epoch_of_next_leader(self.generation))
        self.plan.owned(dict(self.owners))
        self.received = 0
        if number % 3 == 0:  # the topic was compacted
            newest = dict(self.reports)
            self.reports = list(newest.items())

    def want(self, number: int) -> None:
        """Want a random distribution of partitions over the source tasks."""
        choose = random.Random(number)
        chosen = {partition: choose.choice((*SOURCE_TASKS, None)) for partition in PARTITIONS}
        self.wanted = {
            one: frozenset(partition for partition, source_task in chosen.items() if source_task == one)
            for one in SOURCE_TASKS
        }
        self.plan.want(self.wanted, {})

    def receive_reports(self, reports: int) -> None:
        for report in self.reports[self.received : self.received + reports]:
            self.plan.take_report(decode_report(*report))
        self.received = min(len(self.reports), self.received + reports)

    def decide(self) -> None:
        if not self.unpublished:
            self.unpublished = self.plan.due()

    def publish(self) -> None:
        self.configs += [pair for record in self.unpublished for pair in encode_source_task(record, part_bytes=100)]
        self.unpublished = []

    # -- checks

    def check_at_most_once(self) -> None:
        for partition in PARTITIONS:
            runners = [
                f"{node.member} in source task {source_task}"
                for node in self.nodes.values()
                for source_task, running in node.source_tasks.items()
                if partition in running.partitions
            ]
            assert len(runners) <= 1, f"{partition}: {runners}"

    def lists(self) -> dict[int, Partitions]:
        book = SourceTaskBook()
        for record in self.configs:
            book.take(decode_source_task(*record))
        return {source_task: record.partitions for source_task, record in book.records.items()}

    def settle(self) -> None:
        """Deliver everything until nothing changes."""
        for _ in range(30):
            before = (len(self.configs), dict(self.owners))
            self.publish()
            self.round(len(SOURCE_TASKS))
            while self.pending:
                self.deliver_assignment(0)
            for node in self.nodes.values():
                self.read(node, len(self.configs))
                self.stop(node)
                self.report(node)
            self.receive_reports(len(self.reports))
            self.decide()
            self.check_at_most_once()
            if not self.unpublished and before == (len(self.configs), self.owners):
                return
        raise AssertionError("lists do not settle")

    def check_each_in_one_list(self) -> None:
        """Check at rest that every wanted partition is in one list and runs. Without nodes nothing moves."""
        if not self.nodes:
            return
        lists = self.lists()
        assert {source_task: found for source_task, found in lists.items() if found} == {
            source_task: found for source_task, found in self.wanted.items() if found
        }
        assert not self.plan.moving
        assert _sorted(self.plan.source_tasks) == _sorted(
            partition
            for node in self.nodes.values()
            for running in node.source_tasks.values()
            for partition in running.partitions
        )


def _sorted(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return sorted(partitions)
