"""Members of an election with any backend, and the events they received."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mm2.core.assignment.tasks import TaskKind
from mm2.election.protocol import Election, Joined, Json, Lost, MemberInfo, Membership
from tests.lab.waiting import until

SOON = 30.0  # seconds: a first join makes a broker create its offsets topic, on a busy machine


def info(node: str, *tasks: str) -> MemberInfo:
    return MemberInfo(node_id=node, url=f"http://{node}", capacity=2, kinds=TaskKind.ALL, tasks=tasks, version="test")


def names(_generation: int, members: Mapping[str, MemberInfo]) -> dict[str, Json]:
    """Return an assignment that shows the members: each member gets all node IDs and its own."""
    everyone: list[Json] = [*sorted({one.node_id for one in members.values()})]
    return {member: {"all": everyone, "you": one.node_id} for member, one in members.items()}


class Watched:
    """A member and all events it received."""

    def __init__(self, election: Election) -> None:
        self.election = election
        self.history: list[Membership] = []
        self.ended = asyncio.Event()  # set when no more events follow: the member left, or its assignment failed

    @property
    def joined(self) -> Joined | None:
        last = self.history[-1] if self.history else None
        return last if isinstance(last, Joined) else None

    @property
    def memberships(self) -> list[Joined]:
        return [event for event in self.history if isinstance(event, Joined)]

    @property
    def losses(self) -> list[Lost]:
        """Losses after the first membership. Earlier ones only report what the member is waiting for."""
        first = next((at for at, event in enumerate(self.history) if isinstance(event, Joined)), len(self.history))
        return [event for event in self.history[first:] if isinstance(event, Lost)]

    def sees(self, *nodes: str) -> bool:
        last = self.joined
        return last is not None and {one.node_id for one in last.members.values()} == set(nodes)

    async def until_joined(self, *, after: int = -1, leading: bool = False, within: float = SOON) -> Joined:
        """Wait for a membership of a later generation than ``after``."""

        def found() -> Joined | None:
            last = self.joined
            return last if last and last.generation > after and (last.is_leader or not leading) else None

        last = await until(found, within, f"a member after generation {after}")
        assert last is not None
        return last

    async def record(self) -> None:
        try:
            async for event in self.election.events():
                self.history.append(event)
        finally:
            self.ended.set()


@asynccontextmanager
async def watched(election: Election) -> AsyncIterator[Watched]:
    """Join, record all events, and leave."""
    async with election:
        one = Watched(election)
        recording = asyncio.create_task(one.record())
        yield one
    await recording


async def until_together(*members: Watched) -> None:
    """Wait until all members see each other in one generation."""

    def together() -> bool:
        nodes = [one.joined.members[one.joined.member_id].node_id for one in members if one.joined]
        generations = {one.joined.generation for one in members if one.joined}
        return len(nodes) == len(members) and len(generations) == 1 and all(one.sees(*nodes) for one in members)

    await until(together, SOON, f"{len(members)} members see each other")


def leader_first(*members: Watched) -> list[Watched]:
    """Return the leader, followed by the others."""
    return sorted(members, key=lambda one: not (one.joined and one.joined.is_leader))
