"""One round of placing a flow's tasks on its members, from what everybody says to what everybody is to run.

A task that moves is first taken, and given in a later round, when its owner has said that it let go. A task has a
home: the node it was placed on, or moved to for balance. While that node is away it is a guest elsewhere, and goes home
when the node returns. So a restart moves a node's tasks away and back, and no others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mm2.core.placement import AWAY_MS, NOBODY, Member, Place, Placement
from mm2.core.tasks import TaskId

GAP_TOLERATED = 0.2  # of the mean load: measured load wobbles by about that, and a move stops a task for a second or so
GAIN = 0.05  # of the giver's mean task: what a move must take off the more loaded of the two, to be worth that second
MOVES_SHARE = 0.1  # of all tasks: at most so many are moved in a round only to even out load


def place(
    tasks: Mapping[TaskId, int],
    members: Mapping[str, Member],
    *,
    before: Placement,
    epoch: int,
    now_ms: int,
    delay_ms: int = 0,
    salt: str = "",
) -> Placement:
    """Place ``tasks`` (with their weights, at least 1) on ``members`` (by member id).

    ``before`` is the last placement the leader knows; one that is not older than ``epoch`` is from another life of the
    group and not looked at. ``now_ms``: epoch milliseconds of the leader's clock. ``delay_ms``: for how long the tasks
    of a node that vanished with them wait for its return (scheduled.rebalance.max.delay.ms). ``salt`` lets flows whose
    tasks are alike begin on different nodes: the flow's name.

    Invariants, where *may run* is: is reported to be held, or was given in an epoch not taken in yet:
    A. A task is given only to a member when no other may run it. A member that may run it, and is to, keeps it.
    B. While a member offers capacity, every task has an owner or a next one, or waits for its node no longer than
       ``delay_ms``. Taken from a member only in favour of a next one.
    C. A task leaves a member that stays and offers capacity only to go home, to fill a member that had nothing, or to
       even out load; of the last there are at most `MOVES_SHARE` of all tasks (at least 1) in a round, and none while
       a home is away.
    D. A task that was at home when its node went away, and whose node comes back within `AWAY_MS`, has been moved twice
       at most, while no new node joins, no other node goes away with it, and the leader knows the placement before.
    E. At rest, no member is loaded more than the least loaded by more than `GAP_TOLERATED` of the mean, unless no
       single task could better that by `GAIN` of its mean task, and was not its only one. Load is weight by capacity.
    F. The same input gives the same output; a round that changes nothing changes no place.
    """
    memory = before if before.epoch < epoch else Placement()
    return _Round(tasks, members, before=memory, now_ms=now_ms, delay_ms=delay_ms, salt=salt).placement(epoch)


@dataclass(slots=True, eq=False)
class _Spot:
    """A member that offers capacity, and the tasks that are, or will be, there."""

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
        """How loaded it would be; by what the lightest of all is found."""
        return (self.weight + weight) / self.capacity, len(self.tasks) / self.capacity, self.order


class _Round:
    def __init__(
        self,
        tasks: Mapping[TaskId, int],
        members: Mapping[str, Member],
        *,
        before: Placement,
        now_ms: int,
        delay_ms: int,
        salt: str,
    ) -> None:
        self._weights = {task: max(1, tasks[task]) for task in sorted(tasks)}
        self._members = members
        self._before = before
        self._now_ms = now_ms
        self._delay_ms = delay_ms
        self._spots = {
            one: _Spot(one, member.node, member.capacity, _order(salt, member.node, one), set())
            for one, member in sorted(members.items())
            if member.capacity > 0
        }
        self._at_node = {spot.node: spot for spot in reversed(self._spots.values())}
        self._holders = self._who_holds()
        self._at: dict[TaskId, _Spot] = {}
        self._homes: dict[TaskId, str] = {}
        self._waiting: dict[TaskId, int] = {}

    def placement(self, epoch: int) -> Placement:
        for task in self._weights:
            self._stay(task)
        seen = self._seen()
        self._adopt(seen)
        complete = all(home in self._at_node for home in self._homes.values())
        empty = [spot for spot in self._spots.values() if not spot.tasks]
        stayed = bool(self._at)
        self._place(task for task in self._weights if task not in self._at and task not in self._waiting)
        if stayed and complete:
            self._fill(empty, only_guests=False)
            self._even_out()
        elif stayed:
            self._fill([spot for spot in empty if spot.node not in self._before.seen], only_guests=True)
        places = {task: found for task in self._weights if (found := self._outcome(task, epoch)) is not None}
        places |= {task: replace(place, next=NOBODY, until_ms=None) for task, place in self._leftovers().items()}
        return Placement(epoch=epoch, places=places, seen=seen)

    def _leftovers(self) -> dict[TaskId, Place]:
        """Tasks there are no longer, while their owners may run them: they may be back before those have heard."""
        gone = {task: place for task, place in self._before.places.items() if task not in self._weights}
        return {task: place for task, place in gone.items() if place.owner and self._holders.get(task) == place.owner}

    # -- where a task is now

    def _who_holds(self) -> dict[TaskId, str]:
        """Who may run each task. Of several the one it was given to, else one at its home."""
        reported: dict[TaskId, list[str]] = {}
        for one, member in sorted(self._members.items()):
            for task in member.holds:
                reported.setdefault(task, []).append(one)
        holders: dict[TaskId, str] = {}
        for task in dict.fromkeys((*self._weights, *self._before.places)):
            place, said = self._before.places.get(task), reported.get(task, [])
            owner = place.owner if place is not None else None
            if place is not None and owner is not None and (owner in said or self._unheard(place)):
                holders[task] = owner
            elif said:
                home = place.home if place is not None else None
                holders[task] = min(said, key=lambda one: (self._members[one].node != home, one))
        return holders

    def _unheard(self, place: Place) -> bool:
        """Whether the owner is there and may still have to take in that it was given the task."""
        owner = self._members.get(place.owner or NOBODY)
        return owner is not None and owner.epoch < place.since

    def _stay(self, task: TaskId) -> None:
        """Find the spot where the task is, or is on its way to, or has to wait for."""
        place, holder = self._before.places.get(task), self._holders.get(task)
        if place is not None:
            self._homes[task] = place.home
        elif holder is not None:
            self._homes[task] = self._members[holder].node
        after, owner = (place.next, place.owner) if place is not None else (None, None)
        spot = next((self._spots[one] for one in (after, holder, owner) if one in self._spots), None)
        home = self._at_node.get(self._homes.get(task, ""))
        if home is not None and (spot is None or spot.node != home.node):
            spot = home
        if spot is None and place is not None and holder is None:
            spot = self._at_node.get(place.node)
            until = self._wait_for(place)
            if spot is None and until is not None:
                self._waiting[task] = until
        if spot is not None:
            self._settle(task, spot)

    def _wait_for(self, place: Place) -> int | None:
        """Until when the task waits for the node that vanished with it; None when it does not."""
        latest = self._now_ms + self._delay_ms
        until = latest if place.until_ms is None and place.owner is not None else place.until_ms
        if until is None or place.owner in self._members:
            return None
        until = min(until, latest)  # a clock that was set back, or a shorter delay
        return until if until > self._now_ms else None

    def _seen(self) -> dict[str, int]:
        """The nodes that offer capacity, or did not long ago."""
        recent = {node: min(ms, self._now_ms) for node, ms in self._before.seen.items() if self._now_ms - ms < AWAY_MS}
        return recent | dict.fromkeys(self._at_node, self._now_ms)

    def _adopt(self, seen: Mapping[str, int]) -> None:
        """Give up homes that have been away for too long: their guests are at home where they are now."""
        for task, spot in self._at.items():
            if self._homes.get(task) not in seen:
                self._homes[task] = spot.node

    # -- where it should be

    def _settle(self, task: TaskId, spot: _Spot) -> None:
        before = self._at.get(task)
        if before is not None:
            before.tasks.remove(task)
            before.weight -= self._weights[task]
        spot.tasks.add(task)
        spot.weight += self._weights[task]
        self._at[task] = spot

    def _place(self, tasks: Iterable[TaskId], spots: Iterable[_Spot] | None = None) -> None:
        """Put each task, the heaviest first, where the load is the least with it."""
        chosen = list(self._spots.values() if spots is None else spots)
        for task in sorted(tasks, key=lambda one: -self._weights[one]) if chosen else ():
            spot = min(chosen, key=lambda one: one.with_more(self._weights[task]))
            self._settle(task, spot)
            self._homes.setdefault(task, spot.node)

    def _fill(self, empty: list[_Spot], *, only_guests: bool) -> None:
        """Bring members that had nothing up to their share with what others carry beyond theirs, guests first: the one
        that had nothing may have come for the one that is away."""
        if not empty:
            return
        share = sum(self._weights[task] for task in self._at) / sum(spot.capacity for spot in self._spots.values())
        givers = [spot for spot in self._spots.values() if spot not in empty]
        for spot in empty:
            while (found := self._beyond(share, givers, spot, only_guests)) is not None:
                self._move([found], [spot])
            crowded = [one for one in self._spots.values() if len(one.tasks) > 1 and self._movable(one, only_guests)]
            if not spot.tasks and crowded:  # what is beyond the shares was less than any one task
                giver = max(crowded, key=lambda one: (one.load, one.order))
                self._move(self._movable(giver, only_guests)[-1:], [spot])

    def _beyond(self, share: float, givers: list[_Spot], taker: _Spot, only_guests: bool) -> TaskId | None:
        """The next task for ``taker``: one that fits into its share, from who carries the most beyond its own."""
        room = share * taker.capacity - taker.weight
        for giver in sorted(givers, key=lambda one: (-one.load, one.order)):
            if giver.load <= share or room <= 0:
                break
            fitting = (task for task in self._movable(giver, only_guests) if self._weights[task] <= room)
            if len(giver.tasks) > 1 and (found := next(fitting, None)) is not None:
                return found
        return None

    def _movable(self, spot: _Spot, only_guests: bool) -> list[TaskId]:
        """Guests, then the others, each the heaviest first."""
        tasks = [task for task in spot.tasks if not (only_guests and self._is_home(task))]
        return sorted(tasks, key=lambda one: (self._is_home(one), -self._weights[one], one))

    def _move(self, tasks: list[TaskId], spots: list[_Spot]) -> None:
        """Move tasks for good, where each fits best."""
        for task in tasks:
            del self._homes[task]
        self._place(tasks, spots)

    def _is_home(self, task: TaskId) -> bool:
        return self._homes.get(task) in self._at_node

    def _even_out(self) -> None:
        """Move one task at a time to the least loaded member, while that betters a gap worth it.

        Each move makes the more loaded of two members less loaded, and the other not more than that one was: so rounds
        with equal weights come to an end.
        """
        for _ in range(max(1, int(MOVES_SHARE * len(self._weights)))):
            found = self._worthwhile()
            if found is None:
                return
            task, taker = found
            self._move([task], [taker])

    def _worthwhile(self) -> tuple[TaskId, _Spot] | None:
        """The task whose move betters the widest gap that can be bettered, and to where."""
        ranked = sorted(self._spots.values(), key=lambda spot: (spot.load, -spot.capacity, spot.order))
        tolerated = GAP_TOLERATED * sum(spot.load for spot in ranked) / max(1, len(ranked))
        for giver in reversed(ranked[1:]):
            if giver.load - ranked[0].load <= tolerated:
                return None
            best = self._best(giver, ranked[0])
            if best is not None and giver.load - best[0] > GAIN * giver.load / len(giver.tasks):
                return best[1], ranked[0]
        return None

    def _best(self, giver: _Spot, taker: _Spot) -> tuple[float, TaskId] | None:
        """The task that leaves the less load on the more loaded of the two, and that load. None that is on its way, and
        never the last one: who has nothing is given something, which would go on for ever."""
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

    # -- what follows for now

    def _outcome(self, task: TaskId, epoch: int) -> Place | None:
        """Its place, None for a task that is new and that nobody can take."""
        place, holder, spot = self._before.places.get(task), self._holders.get(task), self._at.get(task)
        if spot is None:
            return self._nowhere(place, holder, task)
        home = self._homes[task]
        if holder is not None and holder != spot.id:
            since = place.since if place is not None and place.owner == holder else self._members[holder].epoch
            return Place(owner=holder, node=self._members[holder].node, since=since, home=home, next=spot.id)
        kept = place is not None and place.owner == spot.id
        if kept and place is not None and place.next is None:
            return replace(place, home=home, until_ms=None)
        return Place(owner=spot.id, node=spot.node, since=epoch, home=home)

    def _nowhere(self, place: Place | None, holder: str | None, task: TaskId) -> Place | None:
        """A task without a spot: it waits for its node, or for somebody to offer capacity; whoever has it keeps it."""
        if place is None and holder is None:
            return None
        if holder is None:
            assert place is not None
            return replace(place, owner=None, next=None, until_ms=self._waiting.get(task))
        node, since = self._members[holder].node, self._members[holder].epoch
        if place is not None and place.owner == holder:
            return replace(place, next=None, until_ms=None)
        return Place(owner=holder, node=node, since=since, home=self._homes[task])


def _order(salt: str, node: str, member: str) -> bytes:
    """An order of nodes that differs from flow to flow."""
    return hashlib.blake2b(f"{salt}\0{node}\0".encode(), digest_size=8).digest() + member.encode()
