"""Assignment of a flow's tasks to its members in one rebalance, from the state that the members report.

A task that moves is revoked first and assigned in a later rebalance, when its owner has released it. Each task has a
preferred node, its home: the node it was first assigned to, or moved to for balance. While that node is away, the task
runs on another node as a guest, and it returns when its home does. A restart therefore moves the tasks of one node away
and back, and no others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from mm2.core.assignment.task_placement import AWAY_MS, NO_MEMBER, MemberState, TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId

GAP_TOLERATED = 0.2  # share of the mean load; measured load varies by about that, and a move stops a task for a second
GAIN = 0.05  # share of the giver's mean task; the least a move must relieve the more loaded member, to be worth it
MOVES_SHARE = 0.1  # share of all tasks; at most so many are moved in a rebalance only to balance load


def rebalance(
    tasks: Mapping[TaskId, int],
    members: Mapping[str, MemberState],
    *,
    before: TaskAssignments,
    epoch: int,
    now_ms: int,
    delay_ms: int = 0,
    salt: str = "",
) -> TaskAssignments:
    """Assign ``tasks`` (with their weights, at least 1) to ``members`` (by member ID).

    ``before`` is the last assignment that the leader has; it is ignored unless it is older than ``epoch``, because it
    is then from an earlier group of the same name. ``now_ms``: epoch milliseconds of the leader's clock. ``delay_ms``:
    how long the tasks of a node that disappeared wait for its return (scheduled.rebalance.max.delay.ms). ``salt`` is
    the flow's name: flows with the same tasks then start on different nodes.

    Invariants. A member *may run* a task that it reports to hold, or that it was assigned in an epoch that it has not
    received yet:
    A. A task is assigned to a member only if no other member may run it. A member that may run it, and should, keeps
       it. A member that cannot run a kind of task (``MemberState.kinds``) offers no capacity for it.
    B. While a member offers capacity for it, every task has an owner or a next owner, or waits for its node for at most
       ``delay_ms``. A task is revoked from a member only in favour of a next owner.
    C. A task leaves a member that stays and offers capacity only to return to its home, to fill an empty member, or to
       balance load; at most `MOVES_SHARE` of all tasks (at least 1) move to balance load in one rebalance, and none
       while a home is away.
    D. A task that was at home when its node went away, and whose node returns within `AWAY_MS`, moves at most twice, if
       no new node joins, no other node is away at the same time, and the leader has the previous assignment.
    E. Once stable, and if all members can run all kinds, no member's load exceeds the lowest load by more than
       `GAP_TOLERATED` of the mean, unless it has only one task, or moving a single task would gain less than `GAIN` of
       its mean task. Load is weight per capacity.
    F. The same input gives the same output; a rebalance that changes nothing returns the same places.
    """
    memory = before if before.epoch < epoch else TaskAssignments()
    found = []
    for kinds in _alike({task.kind for task in (*tasks, *memory.places)}, members):
        able = {one: _limited(member, kinds) for one, member in members.items()}
        unable = {member.node for one, member in members.items() if able[one] is not member}
        known = TaskAssignments(
            epoch=memory.epoch,
            places={task: place for task, place in memory.places.items() if task.kind in kinds},
            seen={node: ms for node, ms in memory.seen.items() if node not in unable},
        )
        weights = {task: weight for task, weight in tasks.items() if task.kind in kinds}
        one = _Round(weights, able, before=known, now_ms=now_ms, delay_ms=delay_ms, salt=salt)
        found.append(one.placement(epoch))
    return _merged(found, epoch)


def _alike(kinds: Set[str], members: Mapping[str, MemberState]) -> Iterable[frozenset[str]]:
    """Return kinds that the same members can run, together: usually all kinds. At least one set, which can be empty."""
    alike: dict[frozenset[str], set[str]] = {}
    for kind in sorted(kinds):
        able = frozenset(one for one, member in members.items() if member.can_run(kind))
        alike.setdefault(able, set()).add(kind)
    return [frozenset(same) for same in alike.values()] or [frozenset()]


def _limited(member: MemberState, kinds: Iterable[str]) -> MemberState:
    """Return the member, without capacity if it cannot run these ``kinds``."""
    return member if all(member.can_run(kind) for kind in kinds) else replace(member, capacity=0)


def _merged(parts: Sequence[TaskAssignments], epoch: int) -> TaskAssignments:
    """Return the placements of all tasks, in their order."""
    places = {task: place for part in parts for task, place in part.places.items()}
    seen: dict[str, int] = {}
    for part in parts:
        seen |= {node: max(ms, seen.get(node, ms)) for node, ms in part.seen.items()}
    return TaskAssignments(epoch=epoch, places=places, seen=seen)


@dataclass(slots=True, eq=False)
class _Candidate:
    """A member that offers capacity, with the tasks that are or will be assigned to it."""

    id: str
    node: str
    capacity: int
    order: bytes
    tasks: set[TaskId]
    weight: int = 0

    @property
    def load(self) -> float:
        return self.weight / self.capacity

    def with_more(self, weight: int) -> tuple[float, float, bytes]:
        """Return a sort key for its load with ``weight`` added; the smallest is the best candidate."""
        return (self.weight + weight) / self.capacity, len(self.tasks) / self.capacity, self.order


class _Round:
    def __init__(
        self,
        tasks: Mapping[TaskId, int],
        members: Mapping[str, MemberState],
        *,
        before: TaskAssignments,
        now_ms: int,
        delay_ms: int,
        salt: str,
    ) -> None:
        self._weights = {task: max(1, tasks[task]) for task in sorted(tasks)}
        self._members = members
        self._before = before
        self._now_ms = now_ms
        self._delay_ms = delay_ms
        self._candidates = {
            one: _Candidate(one, member.node, member.capacity, _order(salt, member.node, one), set())
            for one, member in sorted(members.items())
            if member.capacity > 0
        }
        self._at_node = {one.node: one for one in reversed(self._candidates.values())}
        self._holders = self._who_holds()
        self._at: dict[TaskId, _Candidate] = {}
        self._homes: dict[TaskId, str] = {}
        self._waiting: dict[TaskId, int] = {}

    def placement(self, epoch: int) -> TaskAssignments:
        for task in self._weights:
            self._stay(task)
        seen = self._seen()
        self._adopt(seen)
        complete = all(home in self._at_node for home in self._homes.values())
        empty = [one for one in self._candidates.values() if not one.tasks]
        stayed = bool(self._at)
        self._place(task for task in self._weights if task not in self._at and task not in self._waiting)
        if stayed and complete:
            self._fill(empty, only_guests=False)
            self._even_out()
        elif stayed:
            self._fill([one for one in empty if one.node not in self._before.seen], only_guests=True)
        places = {task: found for task in self._weights if (found := self._outcome(task, epoch)) is not None}
        places |= {task: replace(place, next=NO_MEMBER, until_ms=None) for task, place in self._leftovers().items()}
        return TaskAssignments(epoch=epoch, places=places, seen=seen)

    def _leftovers(self) -> dict[TaskId, TaskPlacement]:
        """Return tasks that no longer exist while their owners may still run them.

        They are kept because they can reappear before the owners have received the revocation.
        """
        gone = {task: place for task, place in self._before.places.items() if task not in self._weights}
        return {task: place for task, place in gone.items() if place.owner and self._holders.get(task) == place.owner}

    # -- where a task is now

    def _who_holds(self) -> dict[TaskId, str]:
        """Return the member that may run each task. Among several: its owner, otherwise a member on its home."""
        reported: dict[TaskId, list[str]] = {}
        for one, member in sorted(self._members.items()):
            for task in member.holds:
                reported.setdefault(task, []).append(one)
        holders: dict[TaskId, str] = {}
        for task in dict.fromkeys((*self._weights, *self._before.places)):
            place, holding = self._before.places.get(task), reported.get(task, [])
            owner = place.owner if place is not None else None
            if place is not None and owner is not None and (owner in holding or self._not_taken_in(place)):
                holders[task] = owner
            elif holding:
                home = place.home if place is not None else None
                holders[task] = min(holding, key=lambda one: (self._members[one].node != home, one))
        return holders

    def _not_taken_in(self, place: TaskPlacement) -> bool:
        """Return whether the owner is a member and may not yet have received the assignment of the task."""
        owner = self._members.get(place.owner or NO_MEMBER)
        return owner is not None and owner.epoch < place.since

    def _stay(self, task: TaskId) -> None:
        """Find the candidate that has the task, that it is moving to, or that it has to wait for."""
        place, holder = self._before.places.get(task), self._holders.get(task)
        if place is not None:
            self._homes[task] = place.home
        elif holder is not None:
            self._homes[task] = self._members[holder].node
        after, owner = (place.next, place.owner) if place is not None else (None, None)
        candidate = next((self._candidates[one] for one in (after, holder, owner) if one in self._candidates), None)
        home = self._at_node.get(self._homes.get(task, ""))
        if home is not None and (candidate is None or candidate.node != home.node):
            candidate = home
        if candidate is None and place is not None and holder is None:
            candidate = self._at_node.get(place.node)
            until = self._wait_for(place)
            if candidate is None and until is not None:
                self._waiting[task] = until
        if candidate is not None:
            self._settle(task, candidate)

    def _wait_for(self, place: TaskPlacement) -> int | None:
        """Return until when the task waits for the node that disappeared with it; None if it does not wait."""
        latest = self._now_ms + self._delay_ms
        until = latest if place.until_ms is None and place.owner is not None else place.until_ms
        if until is None or place.owner in self._members:
            return None
        until = min(until, latest)  # a clock that was set back, or a shorter delay
        return until if until > self._now_ms else None

    def _seen(self) -> dict[str, int]:
        """Return the nodes that offer capacity, or did recently, with the time when they last did."""
        recent = {node: min(ms, self._now_ms) for node, ms in self._before.seen.items() if self._now_ms - ms < AWAY_MS}
        return recent | dict.fromkeys(self._at_node, self._now_ms)

    def _adopt(self, seen: Mapping[str, int]) -> None:
        """Replace homes that have been away too long: the node that runs a task now becomes its home."""
        for task, candidate in self._at.items():
            if self._homes.get(task) not in seen:
                self._homes[task] = candidate.node

    # -- where it should be

    def _settle(self, task: TaskId, candidate: _Candidate) -> None:
        before = self._at.get(task)
        if before is not None:
            before.tasks.remove(task)
            before.weight -= self._weights[task]
        candidate.tasks.add(task)
        candidate.weight += self._weights[task]
        self._at[task] = candidate

    def _place(self, tasks: Iterable[TaskId], candidates: Iterable[_Candidate] | None = None) -> None:
        """Assign each task, the heaviest first, to the candidate whose load is lowest with it."""
        chosen = list(self._candidates.values() if candidates is None else candidates)
        for task in sorted(tasks, key=lambda one: -self._weights[one]) if chosen else ():
            candidate = min(chosen, key=lambda one: one.with_more(self._weights[task]))
            self._settle(task, candidate)
            self._homes.setdefault(task, candidate.node)

    def _fill(self, empty: list[_Candidate], *, only_guests: bool) -> None:
        """Fill empty members up to their share from members above theirs.

        Guests move first, because the new member may be the replacement of the node that is away.
        """
        if not empty:
            return
        capacity = sum(one.capacity for one in self._candidates.values())
        share = sum(self._weights[task] for task in self._at) / capacity
        givers = [one for one in self._candidates.values() if one not in empty]
        for candidate in empty:
            while (found := self._beyond(share, givers, candidate, only_guests)) is not None:
                self._move([found], [candidate])
            candidates = self._candidates.values()
            crowded = [one for one in candidates if len(one.tasks) > 1 and self._movable(one, only_guests)]
            if not candidate.tasks and crowded:  # every surplus was smaller than a single task
                giver = max(crowded, key=lambda one: (one.load, one.order))
                self._move(self._movable(giver, only_guests)[-1:], [candidate])

    def _beyond(self, share: float, givers: list[_Candidate], taker: _Candidate, only_guests: bool) -> TaskId | None:
        """Return the next task for ``taker``: one that fits into its share, from the largest surplus."""
        room = share * taker.capacity - taker.weight
        for giver in sorted(givers, key=lambda one: (-one.load, one.order)):
            if giver.load <= share or room <= 0:
                break
            fitting = (task for task in self._movable(giver, only_guests) if self._weights[task] <= room)
            if len(giver.tasks) > 1 and (found := next(fitting, None)) is not None:
                return found
        return None

    def _movable(self, candidate: _Candidate, only_guests: bool) -> list[TaskId]:
        """Return guests, then the other tasks, each group sorted by descending weight."""
        tasks = [task for task in candidate.tasks if not (only_guests and self._is_home(task))]
        return sorted(tasks, key=lambda one: (self._is_home(one), -self._weights[one], one))

    def _move(self, tasks: list[TaskId], candidates: list[_Candidate]) -> None:
        """Move tasks permanently, each to the best of ``candidates``, which becomes its home."""
        for task in tasks:
            del self._homes[task]
        self._place(tasks, candidates)

    def _is_home(self, task: TaskId) -> bool:
        return self._homes.get(task) in self._at_node

    def _even_out(self) -> None:
        """Move one task at a time to the least loaded member, while that narrows a gap by enough.

        Each move lowers the load of the more loaded of two members, and the other one's stays below the former's
        previous load, so repeated rebalances with equal weights terminate.
        """
        for _ in range(max(1, int(MOVES_SHARE * len(self._weights)))):
            found = self._worthwhile()
            if found is None:
                return
            task, taker = found
            self._move([task], [taker])

    def _worthwhile(self) -> tuple[TaskId, _Candidate] | None:
        """Return the task whose move narrows the widest possible gap, and the member to move it to."""
        ranked = sorted(self._candidates.values(), key=lambda one: (one.load, -one.capacity, one.order))
        tolerated = GAP_TOLERATED * sum(one.load for one in ranked) / max(1, len(ranked))
        for giver in reversed(ranked[1:]):
            if giver.load - ranked[0].load <= tolerated:
                return None
            best = self._best(giver, ranked[0])
            if best is not None and giver.load - best[0] > GAIN * giver.load / len(giver.tasks):
                return best[1], ranked[0]
        return None

    def _best(self, giver: _Candidate, taker: _Candidate) -> tuple[float, TaskId] | None:
        """Return the task that minimises the higher load of the two members when moved, and that load.

        Tasks that are already moving are skipped. The giver's only task never moves: an empty member is filled again,
        which would repeat for ever.
        """
        if len(giver.tasks) < 2:
            return None
        return min(
            (
                (max((giver.weight - weight) / giver.capacity, (taker.weight + weight) / taker.capacity), task)
                for task in giver.tasks
                if (weight := self._weights[task]) and self._holders.get(task, giver.id) == giver.id
            ),
            default=None,
        )

    # -- the next step towards it

    def _outcome(self, task: TaskId, epoch: int) -> TaskPlacement | None:
        """Return the task's placement; None for a new task that no member can take."""
        place, holder, candidate = self._before.places.get(task), self._holders.get(task), self._at.get(task)
        if candidate is None:
            return self._nowhere(place, holder, task, epoch)
        home = self._homes[task]
        if holder is not None and holder != candidate.id:
            since = place.since if place is not None and place.owner == holder else self._members[holder].epoch
            node = self._members[holder].node
            return TaskPlacement(owner=holder, node=node, since=since, home=home, next=candidate.id)
        kept = place is not None and place.owner == candidate.id
        if kept and place is not None and place.next is None:
            return replace(place, home=home, until_ms=None)
        return TaskPlacement(owner=candidate.id, node=candidate.node, since=epoch, home=home)

    def _nowhere(
        self, place: TaskPlacement | None, holder: str | None, task: TaskId, epoch: int
    ) -> TaskPlacement | None:
        """Return the placement of a task without a candidate: its holder keeps it, or it waits for its node."""
        if place is None and holder is None:
            return None
        if holder is None:
            assert place is not None
            return replace(place, owner=None, next=None, until_ms=self._waiting.get(task))
        node, since = self._members[holder].node, self._members[holder].epoch
        if place is not None and place.owner == holder:
            return replace(place, next=None, until_ms=None, since=place.since if place.next is None else epoch)
        return TaskPlacement(owner=holder, node=node, since=since, home=self._homes[task])


def _order(salt: str, node: str, member: str) -> bytes:
    """Return a sort key for nodes that differs between flows."""
    return hashlib.blake2b(f"{salt}\0{node}\0".encode(), digest_size=8).digest() + member.encode()
