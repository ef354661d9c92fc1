"""Members of an election and what happened to them, whatever system holds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mm2.election.protocol import Election, Joined, Json, Lost, MemberInfo, Membership
from tests.lab.waiting import until

SOON = 30.0  # seconds: a first join makes a broker create its offsets topic, on a machine that is busy


def info(node: str, *tasks: str) -> MemberInfo:
    return MemberInfo(node_id=node, url=f"http://{node}", capacity=2, tasks=tasks, version="test")


def names(_generation: int, members: Mapping[str, MemberInfo]) -> dict[str, Json]:
    """An assignment that shows who was seen: each member gets all node ids and its own."""
    everyone: list[Json] = [*sorted({one.node_id for one in members.values()})]
    return {member: {"all": everyone, "you": one.node_id} for member, one in members.items()}


class Watched:
    """A member and everything that happened to it."""

    def __init__(self, election: Election) -> None:
        self.election = election
        self.history: list[Membership] = []
        self.ended = asyncio.Event()  # there will be no more events: it was left, or its assignment failed

    @property
    def joined(self) -> Joined | None:
        last = self.history[-1] if self.history else None
        return last if isinstance(last, Joined) else None

    @property
    def memberships(self) -> list[Joined]:
        return [event for event in self.history if isinstance(event, Joined)]

    @property
    def losses(self) -> list[Lost]:
        """After the first membership; until then they say what it is waiting for."""
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
    """Join, write down what happens, and leave."""
    async with election:
        one = Watched(election)
        recording = asyncio.create_task(one.record())
        yield one
    await recording


async def until_together(*members: Watched) -> None:
    """Until all see one another, in one generation."""

    def together() -> bool:
        nodes = [one.joined.members[one.joined.member_id].node_id for one in members if one.joined]
        generations = {one.joined.generation for one in members if one.joined}
        return len(nodes) == len(members) and len(generations) == 1 and all(one.sees(*nodes) for one in members)

    await until(together, SOON, f"{len(members)} members see one another")


def leader_first(*members: Watched) -> list[Watched]:
    """The leader, then the others."""
    return sorted(members, key=lambda one: not (one.joined and one.joined.is_leader))
