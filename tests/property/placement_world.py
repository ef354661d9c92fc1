"""Nodes that join, leave and crash, and messages that are late, lost or in another order: who really runs what.

Written apart from `mm2.core.placement_round`: nothing here knows why a task is where it is. Of the code under test a
node uses `Holdings`, as a real one does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mm2.core.holdings import Holdings
from mm2.core.placement import Member, Placement
from mm2.core.placement_round import place
from mm2.core.tasks import TaskId


class Report(NamedTuple):
    """A member's word on its way; one with a lower number is older."""

    number: int
    member: str
    said: Member


class Answer(NamedTuple):
    """The leader's word on its way."""

    member: str
    epoch: int
    run: tuple[TaskId, ...]


@dataclass
class Node:
    """One process. ``running``: the truth."""

    id: str
    member: str
    capacity: int
    holdings: Holdings = field(default_factory=Holdings)
    running: set[TaskId] = field(default_factory=set)
    memory: Placement = field(default_factory=Placement)

    def obey(self, epoch: int, run: Collection[TaskId]) -> None:
        if self.holdings.take(epoch, run):
            self.running |= set(run)

    def drain(self, tasks: Collection[TaskId]) -> None:
        """End these, if they are to end."""
        for task in self.holdings.drain & set(tasks):
            self.running.remove(task)
            self.holdings.let_go(task)

    def says(self, epoch: int | None = None) -> Member:
        holdings = self.holdings
        said_epoch = holdings.epoch if epoch is None else epoch
        return Member(node=self.id, capacity=self.capacity, holds=holdings.holds, epoch=said_epoch)


class World:
    """What is common to both kinds of election: nodes and their lives."""

    def __init__(self, tasks: Mapping[TaskId, int], delay_ms: int = 0) -> None:
        self.tasks = dict(tasks)
        self.delay_ms = delay_ms
        self.nodes: dict[str, Node] = {}  # by member id; those that live
        self.now_ms = 1_000_000
        self.epoch = 0
        self.placement = Placement()
        self.given: dict[TaskId, str] = {}  # the node that had it last
        self.moves: dict[TaskId, int] = {}
        self._members = 0

    def join(self, node: str, capacity: int) -> Node | None:
        """None when that node is there already."""
        if any(one.id == node for one in self.nodes.values()):
            return None
        self._members += 1
        member = f"{node}#{self._members}"
        self.nodes[member] = Node(node, member, capacity)
        return self.nodes[member]

    def decide(self, members: Mapping[str, Member], before: Placement) -> Placement:
        self.epoch += 1
        arguments = {"epoch": self.epoch, "now_ms": self.now_ms, "delay_ms": self.delay_ms}
        placement = place(self.tasks, members, before=before, salt="A->B", **arguments)
        assert placement == place(self.tasks, members, before=before, salt="A->B", **arguments)
        self.placement = placement
        for task in self.tasks:
            found = placement.places.get(task)
            if found is not None and found.owner is not None and found.next is None:
                if self.given.get(task, found.node) != found.node:
                    self.moves[task] = self.moves.get(task, 0) + 1
                self.given[task] = found.node
        return placement

    def runners(self, task: TaskId) -> list[str]:
        return [node.id for node in self.nodes.values() if task in node.running]

    def check_never_two(self) -> None:
        tasks = {task for node in self.nodes.values() for task in node.running}
        twice = {str(task): self.runners(task) for task in tasks if len(self.runners(task)) > 1}
        assert not twice, f"run by two: {twice}"

    def check_each_once(self) -> None:
        """To be called at rest."""
        running = sorted(task for node in self.nodes.values() for task in node.running)
        able = any(node.capacity > 0 for node in self.nodes.values())
        if able:
            assert running == sorted(self.tasks)
        else:
            assert len(running) == len(set(running))

    def check_balance(self) -> None:
        """To be called at rest: no member is loaded much more than another one, if a single task could better
        that, and was not its only one."""
        loads = {
            node.member: sum(self.tasks[task] for task in node.running) / node.capacity
            for node in self.nodes.values()
            if node.capacity > 0
        }
        if not loads:
            return
        mean = sum(loads.values()) / len(loads)
        low = min(loads, key=lambda one: (loads[one], -self.nodes[one].capacity))
        for giver in self.nodes.values():
            if giver.capacity == 0 or len(giver.running) == 1 or loads[giver.member] - loads[low] <= 0.2 * mean:
                continue
            for task in giver.running:
                weight = self.tasks[task]
                worse = max(
                    loads[giver.member] - weight / giver.capacity, loads[low] + weight / self.nodes[low].capacity
                )
                gain = 0.05 * loads[giver.member] / len(giver.running)
                assert loads[giver.member] - worse <= gain + 1e-6, f"{task} should leave {giver.id}"


class Rounds(World):
    """Election as Kafka's groups do it: everybody joins a round with its newest word; the leader knows what it last
    heard. Some miss the answer."""

    def round(self, leader: int = 0, missing: Collection[int] = ()) -> bool:
        """Whether it changed nothing."""
        members = sorted(self.nodes)
        if not members:
            return True
        said = {one: self.nodes[one].says(self.epoch) for one in members}
        before = self.nodes[members[leader % len(members)]].memory
        placement = self.decide(said, before)
        sent = json.loads(json.dumps(placement.to_json()))
        for number, one in enumerate(members):
            if number not in missing:
                self.nodes[one].obey(self.epoch, placement.run(one))
                memory = Placement.from_json(sent)
                assert memory == placement
                self.nodes[one].memory = memory or Placement()
        self.check_never_two()
        return placement.same_plan(before) and not missing

    def _elder(self) -> int:
        """Kafka takes a new leader from those that were in the last round, as long as one of them stays."""
        members = sorted(self.nodes)
        return max(range(len(members)), key=lambda one: self.nodes[members[one]].memory.epoch, default=0)

    def settle(self) -> None:
        """Rounds until nothing changes any more."""
        for _ in range(20 + 4 * len(self.tasks)):
            for node in self.nodes.values():
                node.drain(node.running)
            resting = self.round(self._elder())
            self.now_ms += 1_000
            if resting and not any(node.holdings.drain for node in self.nodes.values()):
                return
        raise AssertionError("it keeps moving")


class Store(World):
    """Election as a store with watches does it: words of members arrive some time, the leader decides on what it has
    seen, and its placement is kept with a version."""

    def __init__(self, tasks: Mapping[TaskId, int], delay_ms: int = 0) -> None:
        super().__init__(tasks, delay_ms)
        self.seen: dict[str, Report] = {}
        self.reports: list[Report] = []
        self.answers: list[Answer] = []
        self._number = 0

    def enter(self, node: str, capacity: int) -> None:
        joined = self.join(node, capacity)
        if joined is not None:
            self.report(joined)
            self.hear(self.reports.pop())

    def report(self, node: Node) -> None:
        self._number += 1
        self.reports.append(Report(self._number, node.member, node.says()))

    def hear(self, report: Report) -> None:
        """The store knows those that live, or have died not long ago."""
        before = self.seen.get(report.member)
        if before is None and report.member not in self.nodes:
            return
        if before is None or report.number > before.number:
            self.seen[report.member] = report

    def expire(self) -> None:
        self.seen = {member: report for member, report in self.seen.items() if member in self.nodes}

    def lead(self) -> None:
        placement = self.decide({one: report.said for one, report in self.seen.items()}, self.placement)
        self.answers += [Answer(one, self.epoch, placement.run(one)) for one in self.seen]

    def tell(self, answer: Answer) -> None:
        node = self.nodes.get(answer.member)
        if node is not None:
            node.obey(answer.epoch, answer.run)
            self.report(node)

    def settle(self) -> None:
        """Everything arrives, and the leader decides, until nothing changes any more."""
        for _ in range(20 + 4 * len(self.tasks)):
            before = self.placement
            self.expire()
            self.lead()
            for answer in self.answers:
                self.tell(answer)
            for node in self.nodes.values():
                node.drain(node.running)
                self.report(node)
            for report in self.reports:
                self.hear(report)
            self.answers, self.reports = [], []
            self.now_ms += 1_000
            self.check_never_two()
            if self.placement.same_plan(before) and not any(n.holdings.drain for n in self.nodes.values()):
                return
        raise AssertionError("it keeps moving")
