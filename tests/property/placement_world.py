"""Model of nodes that join, leave and crash, with delayed, lost and reordered messages.

Written independently of `mm2.core.assignment.rebalance`: this model does not know why a task is placed where it is. Of
the code under test, a node uses only `TaskOwnership`, as a real one does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mm2.core.assignment.rebalance import rebalance
from mm2.core.assignment.task_ownership import TaskOwnership
from mm2.core.assignment.task_placement import MemberState, TaskAssignments
from mm2.core.assignment.tasks import TaskId, TaskKind


class Report(NamedTuple):
    """A member state in flight; a report with a lower number is older."""

    number: int
    member: str
    state: MemberState


class Assignment(NamedTuple):
    """An assignment in flight from the leader."""

    member: str
    epoch: int
    run: tuple[TaskId, ...]


@dataclass
class Node:
    """One process. ``running`` is what it really runs. ``joins_again``: it starts a round as soon as it can."""

    id: str
    member: str
    capacity: int
    holdings: TaskOwnership = field(default_factory=TaskOwnership)
    running: set[TaskId] = field(default_factory=set)
    memory: TaskAssignments = field(default_factory=TaskAssignments)
    joins_again: bool = False

    def apply(self, epoch: int, run: Collection[TaskId]) -> None:
        if self.holdings.take(epoch, run):
            self.running |= set(run)

    def drain(self, tasks: Collection[TaskId]) -> None:
        """Stop those of ``tasks`` that are to be released."""
        for task in self.holdings.drain & set(tasks):
            self.running.remove(task)
            self.holdings.release(task)
            self.joins_again = True

    def lose(self) -> None:
        """Lose the membership, and with it all tasks at once. The group still has the member ID when it returns."""
        self.holdings.lost()
        self.drain(set(self.running))
        self.joins_again = True

    def member_state(self) -> MemberState:
        holdings = self.holdings
        return MemberState(
            node=self.id,
            capacity=self.capacity,
            kinds=frozenset(TaskKind.ALL),
            holds=holdings.holds,
            epoch=holdings.epoch,
        )


class World:
    """The nodes and their life cycle, common to both kinds of election."""

    def __init__(self, tasks: Mapping[TaskId, int], delay_ms: int = 0) -> None:
        self.tasks = dict(tasks)
        self.delay_ms = delay_ms
        self.nodes: dict[str, Node] = {}  # live nodes by member ID
        self.now_ms = 1_000_000
        self.epoch = 0
        self.placement = TaskAssignments()
        self.last_node: dict[TaskId, str] = {}  # the last node of each task
        self.moves: dict[TaskId, int] = {}
        self._members = 0

    def join(self, node: str, capacity: int) -> Node | None:
        """Add a member and return it, or None if the node is already a member."""
        if any(one.id == node for one in self.nodes.values()):
            return None
        self._members += 1
        member = f"{node}#{self._members}"
        self.nodes[member] = Node(node, member, capacity)
        return self.nodes[member]

    def decide(self, members: Mapping[str, MemberState], before: TaskAssignments) -> TaskAssignments:
        self.epoch += 1
        arguments = {"epoch": self.epoch, "now_ms": self.now_ms, "delay_ms": self.delay_ms}
        placement = rebalance(self.tasks, members, before=before, salt="A->B", **arguments)
        assert placement == rebalance(self.tasks, members, before=before, salt="A->B", **arguments)
        self.placement = placement
        for task in self.tasks:
            found = placement.places.get(task)
            if found is not None and found.owner is not None and found.next is None:
                if self.last_node.get(task, found.node) != found.node:
                    self.moves[task] = self.moves.get(task, 0) + 1
                self.last_node[task] = found.node
        return placement

    def runners(self, task: TaskId) -> list[str]:
        return [node.id for node in self.nodes.values() if task in node.running]

    def check_at_most_once(self) -> None:
        tasks = {task for node in self.nodes.values() for task in node.running}
        twice = {str(task): self.runners(task) for task in tasks if len(self.runners(task)) > 1}
        assert not twice, f"running more than once: {twice}"

    def check_each_once(self) -> None:
        """Check at rest that every task runs exactly once."""
        running = sorted(task for node in self.nodes.values() for task in node.running)
        able = any(node.capacity > 0 for node in self.nodes.values())
        if able:
            assert running == sorted(self.tasks)
        else:
            assert len(running) == len(set(running))

    def check_balance(self) -> None:
        """Check at rest that no member has much more load than another if moving a single task would improve that.

        A member with a single task keeps it.
        """
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
    """Election by Kafka group rounds: all members join with their current state; the leader knows its last assignment.

    Some members miss the response, and join again.
    """

    def __init__(self, tasks: Mapping[TaskId, int], delay_ms: int = 0) -> None:
        super().__init__(tasks, delay_ms)
        self.reported: dict[str, MemberState] = {}  # in the last round

    def round(self, leader: int = 0, missing: Collection[int] = ()) -> None:
        members = sorted(self.nodes)
        self.reported = {one: self.nodes[one].member_state() for one in members}
        if not members:
            return
        placement = self.decide(self.reported, self.nodes[members[leader % len(members)]].memory)
        sent = json.loads(json.dumps(placement.to_json()))
        for number, one in enumerate(members):
            self.nodes[one].joins_again = number in missing
            if number not in missing:
                self.nodes[one].apply(self.epoch, placement.run(one))
                memory = TaskAssignments.from_json(sent)
                assert memory == placement
                self.nodes[one].memory = memory or TaskAssignments()
        self.check_at_most_once()

    def _elder(self) -> int:
        """Return a leader from the members of the last round: Kafka prefers them while one of them remains."""
        members = sorted(self.nodes)
        return max(range(len(members)), key=lambda one: self.nodes[members[one]].memory.epoch, default=0)

    def settle(self) -> None:
        """Run the rounds that members or the leader start, until there is no reason for another one."""
        for _ in range(20 + 4 * len(self.tasks)):
            for node in self.nodes.values():
                node.drain(set(node.running))
            if not (self._members_start_one() or self._leader_requests_one()):
                return
            self.round(self._elder())
            self.now_ms += 1_000
        raise AssertionError("assignments do not settle")

    def _members_start_one(self) -> bool:
        offered = {member: node.capacity for member, node in self.nodes.items()}
        changed = offered != {member: state.capacity for member, state in self.reported.items()}
        return changed or any(node.joins_again for node in self.nodes.values())

    def _leader_requests_one(self) -> bool:
        """Return whether the leader does. It has the reports of the last round only."""
        members = sorted(self.nodes)
        if not members:
            return False
        memory = self.nodes[members[self._elder()]].memory
        arguments = {"epoch": self.epoch + 1, "now_ms": self.now_ms, "delay_ms": self.delay_ms}
        planned = rebalance(self.tasks, self.reported, before=memory, salt="A->B", **arguments)
        held = {member: state.holds for member, state in self.reported.items()}
        return not planned.same_plan(memory) or bool(memory.unreported(held))


class Store(World):
    """Election by a store with watches: the leader decides on the member states received so far.

    Member states arrive with delay, and the placement is stored with a version.
    """

    def __init__(self, tasks: Mapping[TaskId, int], delay_ms: int = 0) -> None:
        super().__init__(tasks, delay_ms)
        self.seen: dict[str, Report] = {}
        self.reports: list[Report] = []
        self.assignments: list[Assignment] = []
        self._number = 0

    def enter(self, node: str, capacity: int) -> None:
        joined = self.join(node, capacity)
        if joined is not None:
            self.report(joined)
            self.receive(self.reports.pop())

    def report(self, node: Node) -> None:
        self._number += 1
        self.reports.append(Report(self._number, node.member, node.member_state()))

    def receive(self, report: Report) -> None:
        """Store a report. Members stay known for a while after they crash."""
        before = self.seen.get(report.member)
        if before is None and report.member not in self.nodes:
            return
        if before is None or report.number > before.number:
            self.seen[report.member] = report

    def expire(self) -> None:
        self.seen = {member: report for member, report in self.seen.items() if member in self.nodes}

    def lead(self) -> None:
        placement = self.decide({one: report.state for one, report in self.seen.items()}, self.placement)
        self.assignments += [Assignment(one, self.epoch, placement.run(one)) for one in self.seen]

    def deliver(self, assigned: Assignment) -> None:
        node = self.nodes.get(assigned.member)
        if node is not None:
            node.apply(assigned.epoch, assigned.run)
            self.report(node)

    def settle(self) -> None:
        """Deliver every message and let the leader decide until nothing changes."""
        for _ in range(20 + 4 * len(self.tasks)):
            before = self.placement
            self.expire()
            self.lead()
            for assigned in self.assignments:
                self.deliver(assigned)
            for node in self.nodes.values():
                node.drain(node.running)
                self.report(node)
            for report in self.reports:
                self.receive(report)
            self.assignments, self.reports = [], []
            self.now_ms += 1_000
            self.check_at_most_once()
            if self.placement.same_plan(before) and not any(n.holdings.drain for n in self.nodes.values()):
                return
        raise AssertionError("assignments do not settle")
