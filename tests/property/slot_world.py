"""Nodes that run slots by lists they hear of late, and leaders that are replaced at any moment: who really runs what.

Written apart from `mm2.core.slot_plan`: nothing here knows why a partition is in a list. Of the code under test a node
uses `SlotBook`, as a real one does.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from mm2.core.names import TopicPartition
from mm2.core.slot_plan import SlotPlan
from mm2.core.slot_records import SlotBook, SlotRecord, decode_slot, encode_slot
from mm2.core.slot_reports import SlotReport, decode_report

PARTITIONS = [TopicPartition("t", number) for number in range(4)]
SLOTS = 3
NODES = 3

Partitions = frozenset[TopicPartition]


@dataclass
class Running:
    """A slot on a node. ``partitions``: the truth, which is more than ``record`` has until the rest has stopped.
    ``reported``: what was last said of it, which is not said twice."""

    record: SlotRecord
    partitions: Partitions
    reported: SlotRecord | None = None


@dataclass
class Node:
    """One member. ``position``: how much of the config topic it has read."""

    member: str
    position: int = 0
    book: SlotBook = field(default_factory=SlotBook)
    slots: dict[int, Running] = field(default_factory=dict)


class SlotWorld:
    """The config topic, the reports, the nodes, and one leader at a time."""

    def __init__(self) -> None:
        self.configs: list[tuple[bytes, bytes]] = []  # as committed
        self.reports: list[tuple[bytes, bytes]] = []
        self.nodes: dict[str, Node] = {}  # those that live
        self.owners: dict[int, str] = {}  # as the last round decided
        self.answers: list[tuple[int, str]] = []  # decided, and not arrived yet
        self.generation = 0
        self.plan = SlotPlan(SlotBook(), 0)
        self.unpublished: list[SlotRecord] = []
        self.heard = 0
        self.wanted: tuple[Partitions, ...] = (frozenset(),) * SLOTS
        self._members = 0
        for _ in range(NODES):
            self.join()
        self.lead(1)

    # -- nodes

    def join(self) -> None:
        if len(self.nodes) < NODES:
            self._members += 1
            self.nodes[f"m-{self._members}"] = Node(f"m-{self._members}")

    def die(self, number: int) -> None:
        if self.nodes:
            del self.nodes[sorted(self.nodes)[number % len(self.nodes)]]

    def read(self, node: Node, records: int) -> None:
        """Take in what was published. What is new in a list begins at once, what is gone from it stops later."""
        for record in self.configs[node.position : node.position + records]:
            node.book.take(decode_slot(*record))
        node.position = min(len(self.configs), node.position + records)
        for slot, running in node.slots.items():
            running.record = node.book.records[slot]
            running.partitions |= running.record.partitions

    def stop(self, node: Node) -> None:
        """What lists do not have any more stops."""
        for running in node.slots.values():
            running.partitions = running.record.partitions

    def report(self, node: Node) -> None:
        for slot, running in node.slots.items():
            if running.partitions == running.record.partitions and running.record != running.reported:
                running.reported = running.record
                epoch, version = running.record.age
                said = SlotReport(slot=slot, epoch=epoch, version=version, member=node.member, node=node.member)
                self.reports.append((said.key(), said.value()))

    # -- rounds: slots are taken and given as `mm2.core.placement_round` does it

    def let_go(self, slot: int) -> None:
        """The owner has drained it."""
        for node in self.nodes.values():
            node.slots.pop(slot, None)

    def round(self, gives: int) -> None:
        """Owners that let go, or died, are owners no more; ``gives`` of the slots that have lists are given to one."""
        on_their_way = {slot for slot, member in self.answers if member in self.nodes}
        for slot, owner in list(self.owners.items()):
            running = owner in self.nodes and slot in self.nodes[owner].slots
            if not running and slot not in on_their_way:
                del self.owners[slot]
        members = sorted(self.nodes)
        for slot in sorted(self.plan.lists.keys() - self.owners.keys())[:gives] if members else ():
            self.owners[slot] = members[(gives + slot) % len(members)]
            self.answers.append((slot, self.owners[slot]))
        self.plan.owned(dict(self.owners))

    def answer(self, number: int) -> None:
        """The answer arrives: the node reads all that was published, and begins."""
        if not self.answers:
            return
        slot, member = self.answers.pop(number % len(self.answers))
        node = self.nodes.get(member)
        if node is None:
            return
        self.read(node, len(self.configs))
        if slot in node.book.records:
            record = node.book.records[slot]
            node.slots[slot] = Running(record, record.partitions)

    # -- the leader

    def lead(self, number: int) -> None:
        """Another one leads. What its predecessor had not written is gone, or has just been written."""
        if number % 2:
            self.unpublished = []
        self.publish()
        self.generation += 1
        book = SlotBook()
        for record in self.configs:
            book.take(decode_slot(*record))
        self.plan = SlotPlan(book, book.epoch_of_next_leader(self.generation))
        self.plan.owned(dict(self.owners))
        self.heard = 0
        if number % 3 == 0:  # the topic was compacted
            newest = dict(self.reports)
            self.reports = list(newest.items())

    def want(self, number: int) -> None:
        """Any of the partitions, in any of the slots."""
        choose = random.Random(number)
        chosen = {partition: choose.randrange(SLOTS + 1) for partition in PARTITIONS}
        self.wanted = tuple(
            frozenset(partition for partition, slot in chosen.items() if slot == one) for one in range(SLOTS)
        )
        self.plan.want(self.wanted, {})

    def hear(self, reports: int) -> None:
        for report in self.reports[self.heard : self.heard + reports]:
            self.plan.heard(decode_report(*report))
        self.heard = min(len(self.reports), self.heard + reports)

    def decide(self) -> None:
        if not self.unpublished:
            self.unpublished = self.plan.due()

    def publish(self) -> None:
        self.configs += [pair for record in self.unpublished for pair in encode_slot(record, part_bytes=100)]
        self.unpublished = []

    # -- verdicts

    def check_never_two(self) -> None:
        for partition in PARTITIONS:
            runners = [
                f"{node.member} in slot {slot}"
                for node in self.nodes.values()
                for slot, running in node.slots.items()
                if partition in running.partitions
            ]
            assert len(runners) <= 1, f"{partition}: {runners}"

    def lists(self) -> dict[int, Partitions]:
        book = SlotBook()
        for record in self.configs:
            book.take(decode_slot(*record))
        return {slot: record.partitions for slot, record in book.records.items()}

    def settle(self) -> None:
        """Everything arrives, until nothing changes any more."""
        for _ in range(30):
            before = (len(self.configs), dict(self.owners))
            self.publish()
            self.round(SLOTS)
            while self.answers:
                self.answer(0)
            for node in self.nodes.values():
                self.read(node, len(self.configs))
                self.stop(node)
                self.report(node)
            self.hear(len(self.reports))
            self.decide()
            self.check_never_two()
            if not self.unpublished and before == (len(self.configs), self.owners):
                return
        raise AssertionError("it keeps changing")

    def check_each_in_one_list(self) -> None:
        """To be called at rest."""
        lists = self.lists()
        assert {slot: found for slot, found in lists.items() if found} == {
            slot: found for slot, found in enumerate(self.wanted) if found
        }
        assert not self.plan.moving
        if self.nodes:
            assert _sorted(self.plan.slots) == _sorted(
                partition
                for node in self.nodes.values()
                for running in node.slots.values()
                for partition in running.partitions
            )


def _sorted(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return sorted(partitions)
