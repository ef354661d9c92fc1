"""The election port: the members of a flow, its leader, and each member's assignment.

A node joins once per flow. In each *rebalance* one member is the leader. It receives the metadata of all members and
sends each of them an assignment, which the member keeps until the next rebalance.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInfo:
    """Member metadata.

    ``url``: where other nodes reach it, or empty. ``capacity``: the number of lanes it offers; with 0 all its tasks are
    revoked. ``kinds``: the kinds of tasks that its file enables. ``tasks``: every task it may still be running.
    ``epoch``: the newest assignment it has applied, -1 for none. ``terms``: digest of the flow's settings in its file.
    ``version``: its release.
    """

    node_id: str
    url: str
    capacity: int
    kinds: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    epoch: int = -1
    terms: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A rebalance is complete, and this node is a member.

    ``generation`` increases with every rebalance and is the epoch of its assignments. ``members`` are keyed by member
    ID, without members whose metadata cannot be decoded. ``assignment`` is the leader's assignment for this node.
    ``error``: why the leader assigned nothing, so that every member keeps its tasks; None if it did.
    """

    generation: int
    member_id: str
    leader_id: str
    members: Mapping[str, MemberInfo]
    assignment: Json
    error: str | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this node is the leader of this generation."""
        return self.member_id == self.leader_id

    @property
    def leader_node(self) -> str | None:
        """The leader's node ID."""
        leader = self.members.get(self.leader_id)
        return leader.node_id if leader else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """This node is not a member, yet or any more, and does not lead. ``reason`` is a message. ``is_expected``: it
    usually passes within seconds, such as a coordinator that is still loading."""

    reason: str
    is_expected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByOther:
    """Another program holds the flow's group; this node is rejected until it stops. ``reason`` names it."""

    reason: str


Membership = Joined | Lost | HeldByOther

Assign = Callable[[int, Mapping[str, MemberInfo]], Mapping[str, Json]]
"""Called by the leader in each rebalance with the generation and the members by ID; returns the assignment for each ID.
It must be fast and have no side effects outside the leader."""


class Election(Protocol):
    """Async context manager: entering it starts to join, leaving it gives up the membership.

    A. At most one member leads a generation. A member that lost contact detects that by its own clock before the others
       can replace it, also while it waits for a rebalance to complete. What it has sent before can still arrive later,
       so a leader binds its actions to the generation.
    B. Errors never end an election: they are reported as ``Lost`` or ``HeldByOther`` and retried without limit. An
       unreachable store is ``Lost`` with that reason, never ``HeldByOther``.
    C. ``events`` returns every change once and in order.
    """

    @property
    def membership(self) -> Membership:
        """The current state."""
        ...

    def certain_for(self) -> float:
        """Return for how many seconds from now no other member can have replaced this one; 0 if it is not a member.

        That is the session timeout, counted from when the last answered request was sent. The time also passes while
        the machine is suspended.
        """
        ...

    @property
    def contact(self) -> float:
        """When the newest answered request was sent that proved the membership, in seconds of `session_clock`.

        A membership that is proven after an event was still current at that event. -inf if there was none.
        """
        ...

    def events(self) -> AsyncIterator[Membership]:
        """Yield every change from the start, for one reader.

        Ends when the context is left. Raises exceptions of ``assign``.
        """
        ...

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None:
        """Replace this member's metadata; a change starts a rebalance, or with ``quiet`` waits for the next."""
        ...

    def expect_rebalance(self, wanted: bool) -> None:
        """Set whether a rebalance is expected; if so, the election checks for it more often."""
        ...

    def request_round(self) -> None:
        """Start a rebalance without a change of metadata. Only the leader's request has an effect."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


class DecidingElection(Election, Protocol):
    """An election that decides while its members hold the flow's Kafka group; see `group_guarded_election`.

    It is created for one membership in the group, with the group's last rebalance. A member that has lost the group has
    stopped its tasks, so its membership here can end at once. It is identified by its member ID in the group: a node
    that was killed and restarts has the node ID of its former process, whose membership here can last longer.
    """

    def group_changed(self, group: Joined) -> None:
        """Take a later rebalance of the group: end the memberships of those that have lost it."""
        ...
