"""Which member of a flow runs which task: the values. How they come about is in `placement_round`.

The leader sends the whole placement with every answer, so that whoever leads next knows it:

    {"epoch": 7, "members": ["m-1", …], "nodes": ["node-1", …], "seen": [[node, ms], …],
     "places": [[task, owner, node, since, home, next, until ms], …]}

where members and nodes are named by their place in the lists, and null stands for nobody and never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mm2.core.tasks import TaskId

NOBODY = ""
"""For whom a task is taken that there is no longer."""

AWAY_MS = 600_000
"""A node away for longer is not coming back soon: a restart with a new image takes a few minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a member of the flow's group says of itself.

    ``node`` outlives a restart, a member's id does not. ``capacity``: how many lanes it offers; 0 asks for everything
    to be taken from it. ``holds``: every task it may still be running. ``epoch``: the newest answer it had taken in by
    then. Where all members answer in rounds (Kafka) that is the epoch before the round that its word came in: an
    answer it missed until then will never reach it.
    """

    node: str
    capacity: int
    holds: frozenset[TaskId] = frozenset()
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a task is. Members by id, nodes by node id.

    ``owner`` was given it in epoch ``since``, on node ``node`` (which outlives the owner); None: nobody has it.
    ``next`` is to have it as soon as the owner has let go; the owner is to let go if there is one, even for `NOBODY`.
    ``home`` is where it belongs and goes back to. ``until_ms``: so long it waits for ``node`` to return.
    """

    owner: str | None
    node: str
    since: int
    home: str
    next: str | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The outcome of one round. ``seen``: nodes that offered capacity, and when the last time was (epoch ms of the
    leader's clock), for `AWAY_MS`."""

    epoch: int = -1
    places: Mapping[TaskId, Place] = field(default_factory=dict)
    seen: Mapping[str, int] = field(default_factory=dict)

    def run(self, member: str) -> tuple[TaskId, ...]:
        """Everything ``member`` is to run."""
        return tuple(task for task, place in self.places.items() if place.owner == member and place.next is None)

    @property
    def moving(self) -> tuple[TaskId, ...]:
        """Tasks on their way, or waiting for a node to return: that nobody runs them is as it should be."""
        return tuple(t for t, place in self.places.items() if place.next is not None or place.until_ms is not None)

    def same_plan(self, other: Placement) -> bool:
        """Whether another round would have nothing to say."""
        return self.places == other.places

    def to_json(self) -> dict[str, Any]:
        """For the leader's answer. Short: with n members it travels n times in one request."""
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
    def from_json(cls, message: Any) -> Placement | None:
        """None for what is no placement: then whoever leads begins with what the members report."""
        try:
            members: list[str] = [_text(member) for member in message["members"]]
            nodes: list[str] = [_text(node) for node in message["nodes"]]
            return cls(
                epoch=int(message["epoch"]),
                seen={_text(node): int(ms) for node, ms in message["seen"]},
                places={
                    TaskId.parse(task): Place(
                        owner=None if owner is None else members[owner],
                        node=nodes[node],
                        since=int(since),
                        home=nodes[home],
                        next=None if after is None else members[after],
                        until_ms=None if until is None else int(until),
                    )
                    for task, owner, node, since, home, after, until, *_ in message["places"]
                },
            )
        except (TypeError, KeyError, ValueError, IndexError, AttributeError, OverflowError):
            return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
