"""What a node asks of an election, whichever system holds it: who is a member, who leads, what each was given.

A node joins once per flow. The members take part in *rounds*; in each round one of them leads, sees what all members
say of themselves and answers each of them. Between rounds everybody keeps the last answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInfo:
    """What a member says of itself.

    ``url``: where other nodes reach it, empty where they cannot. ``capacity``: how many lanes it offers; 0 asks for all
    its tasks to be taken. ``tasks``: every task it may still be running. ``epoch``: the newest answer it had taken in
    by then, -1 for none. ``terms``: digest of what its file says of the flow. ``version``: of its release.
    """

    node_id: str
    url: str
    capacity: int
    tasks: tuple[str, ...] = ()
    epoch: int = -1
    terms: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A round is complete and we are part of it.

    ``generation`` grows with every round and is the epoch of what is decided in it. ``members`` are keyed by member id;
    a member this version cannot read is left out. ``assignment`` is what the leader answered us.
    """

    generation: int
    member_id: str
    leader_id: str
    members: Mapping[str, MemberInfo]
    assignment: Json

    @property
    def is_leader(self) -> bool:
        """Whether we decide in this generation."""
        return self.member_id == self.leader_id

    @property
    def leader_node(self) -> str | None:
        """The leader's node id."""
        leader = self.members.get(self.leader_id)
        return leader.node_id if leader else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """We are no member: not yet, or no longer. ``reason`` says why, as a sentence. Whoever led has stepped down."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByOther:
    """Something that is not ours holds the flow, and refuses us until it ends. ``reason`` names it, as a sentence."""

    reason: str


Membership = Joined | Lost | HeldByOther

Assign = Callable[[int, Mapping[str, MemberInfo]], Mapping[str, Json]]
"""Run by the leader in each round: its generation and the members by id, to the answer for each id. Quick, and without
side effects outside the leader."""


class Election(Protocol):
    """Async context manager: entering begins to join, leaving gives the membership back.

    A. At most one member leads a generation. A member that lost contact learns it from its own clock no later than the
       others may replace it, except while it waits for a round to complete (then no later than the rebalance timeout).
       So whoever acts as leader must still bind its acts to the generation.
    B. Trouble never ends an election: it is told as ``Lost`` or ``HeldByOther`` and tried again for ever. "The store
       cannot be reached" is ``Lost`` with that reason, never ``HeldByOther``.
    C. Every change comes out of ``events`` once and in order.
    """

    @property
    def membership(self) -> Membership:
        """As of now."""
        ...

    def events(self) -> AsyncIterator[Membership]:
        """Every change from the start, for one reader. Ends when the context is left; raises what ``assign`` raised."""
        ...

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None:
        """Say something new of ourselves; a round begins if it differs from what was said last. ``quiet``: it can wait
        for the next round, whenever that is."""
        ...

    def hurry(self, wanted: bool) -> None:
        """Whether a round is expected, so that it is worth looking for it more often than usual."""
        ...

    def request_round(self) -> None:
        """Begin a round although nothing changed here. Only the leader's wish counts."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
