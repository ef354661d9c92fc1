"""Values that describe which member of a flow runs which task; `rebalance` computes them.

The leader sends the complete assignment to every member, so that any later leader has it:

    {"epoch": 7, "members": ["m-1", …], "nodes": ["node-1", …], "seen": [[node, ms], …],
     "places": [[task, owner, node, since, home, next, until ms], …]}

Members and nodes are given by their index in the lists; null means no member and no time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from mm2.core.assignment.tasks import TaskId
from mm2.core.wire.json_bytes import as_int

NO_MEMBER = ""
"""``next`` of a task that is revoked because it no longer exists."""

AWAY_MS = 600_000
"""A node that is away for longer is not expected back soon: a restart with a new image takes a few minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """What a member of the flow's group reports.

    ``node`` survives a restart, a member's ID does not. ``capacity``: the number of lanes it offers; with 0 all its
    tasks are revoked. ``kinds``: the kinds of tasks that it can run. ``holds``: every task it may still be running.
    ``epoch``: the newest assignment that it had applied; -1 if there is none, also after it lost its membership and so
    all tasks.
    """

    node: str
    capacity: int
    kinds: frozenset[str]
    holds: frozenset[TaskId] = frozenset()
    epoch: int

    def can_run(self, kind: str) -> bool:
        """Return whether it can run tasks of a kind."""
        return kind in self.kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlacement:
    """The placement of one task, with member IDs and node IDs.

    ``owner`` was assigned the task in epoch ``since``, on node ``node`` (which survives the owner); None: no owner.
    ``next`` gets the task when the owner has released it; if set, even to `NO_MEMBER`, the owner has to release the
    task. ``home`` is the node that the task returns to. ``until_ms``: until then it waits for ``node`` to return.
    """

    owner: str | None
    node: str
    since: int
    home: str
    next: str | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignments:
    """The result of one rebalance. ``seen``: nodes that offered capacity within the last `AWAY_MS`, with the last time
    (epoch milliseconds of the leader's clock)."""

    epoch: int = -1
    places: Mapping[TaskId, TaskPlacement] = field(default_factory=dict)
    seen: Mapping[str, int] = field(default_factory=dict)

    def run(self, member: str) -> tuple[TaskId, ...]:
        """Return all tasks that ``member`` has to run."""
        return tuple(task for task, place in self.places.items() if place.owner == member and place.next is None)

    @property
    def moving(self) -> tuple[TaskId, ...]:
        """Tasks that are moving or waiting for a node to return; it is expected that no member runs them."""
        return tuple(t for t, place in self.places.items() if place.next is not None or place.until_ms is not None)

    def unreported(self, held: Mapping[str, Collection[TaskId]]) -> tuple[TaskId, ...]:
        """Return the tasks that have to be released by an owner that has not reported them.

        ``held``: the tasks that each member reported. The owner was possibly still to receive the assignment of such a
        task. If it was not, because it never will, or because it lost its membership and with it the task, then it has
        nothing to release, and so nothing to report: the leader has to ask.
        """
        return tuple(
            task
            for task, place in self.places.items()
            if place.next is not None and place.owner is not None and task not in held.get(place.owner, (task,))
        )

    def same_plan(self, other: TaskAssignments) -> bool:
        """Return whether both have the same placements."""
        return self.places == other.places

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for the leader's assignment; compact, because one request contains it once per member."""
        members = sorted({m for place in self.places.values() for m in (place.owner, place.next) if m is not None})
        nodes = sorted({node for place in self.places.values() for node in (place.node, place.home)})
        at_member: dict[str | None, int | None] = {member: number for number, member in enumerate(members)}
        at_member[None] = None
        at_node = {node: number for number, node in enumerate(nodes)}
        return {
            "epoch": self.epoch,
            "members": members,
            "nodes": nodes,
            "seen": [[node, ms] for node, ms in sorted(self.seen.items())],
            "places": [
                [
                    str(task),
                    at_member[place.owner],
                    at_node[place.node],
                    place.since,
                    at_node[place.home],
                    at_member[place.next],
                    place.until_ms,
                ]
                for task, place in self.places.items()
            ],
        }

    @classmethod
    def from_json(cls, message: Any) -> TaskAssignments | None:
        """Read `to_json`; None for anything else: the leader then starts from what the members report."""
        try:
            members: list[str] = [_text(member) for member in message["members"]]
            nodes: list[str] = [_text(node) for node in message["nodes"]]
            return cls(
                epoch=as_int(message["epoch"]),
                seen={_text(node): as_int(ms) for node, ms in message["seen"]},
                places={
                    TaskId.parse(task): TaskPlacement(
                        owner=None if owner is None else members[owner],
                        node=nodes[node],
                        since=as_int(since),
                        home=nodes[home],
                        next=None if after is None else members[after],
                        until_ms=None if until is None else as_int(until),
                    )
                    for task, owner, node, since, home, after, until, *_ in message["places"]
                },
            )
        except (TypeError, KeyError, ValueError, IndexError, AttributeError):
            return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.200} is not a string")
    return value
