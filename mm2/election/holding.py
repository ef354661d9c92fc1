"""An election that another system decides, while the flow's Kafka group is held all the same.

The group keeps a Java MirrorMaker out, which knows nothing of ZooKeeper, and nodes whose file elects by the group
itself: they offer another protocol name in it, so the broker refuses whoever comes second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

from mm2.election.feed import MembershipFeed
from mm2.election.protocol import Election, Joined, Lost, MemberInfo, Membership

Decide = Callable[[MemberInfo], Election]
"""Makes the election that decides, not entered yet; called anew whenever the group was lost and is held again."""


class HoldingElection:
    """An `Election`. The group comes first: only who holds it takes part in the election that decides, so nobody leads
    whom the target cluster refuses. Generations are those of the election that decides."""

    def __init__(self, holding: Election, decide: Decide, info: MemberInfo) -> None:
        """``holding`` is the group, not entered yet; what it assigns is of no meaning."""
        self._holding = holding
        self._decide = decide
        self._info = info
        self._deciding: Election | None = None
        self._feed = MembershipFeed(
            Lost(reason="joining the group"), lambda: Lost(reason="no contact")
        )  # its clock is not used
        self._failure: Exception | None = None

    @property
    def membership(self) -> Membership:
        """As of now."""
        held = self._holding.membership
        if isinstance(held, Joined) and self._deciding is not None:
            return self._deciding.membership
        return self._feed.membership if isinstance(held, Joined) else held

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None:
        """Say something new of ourselves; a round begins if it differs from what was said last and is not ``quiet``."""
        self._info = info
        if self._deciding is not None:
            self._deciding.update(info, quiet=quiet)

    def hurry(self, wanted: bool) -> None:
        """Whether a round is expected."""
        if self._deciding is not None:
            self._deciding.hurry(wanted)

    def request_round(self) -> None:
        """Begin a round if we lead."""
        if self._deciding is not None:
            self._deciding.request_round()

    async def events(self) -> AsyncIterator[Membership]:
        """Every change from the start, for one reader. Ends when the context is left; raises what ``assign`` raised."""
        async for change in self._feed.changes():
            yield change
        if self._failure is not None:
            raise self._failure

    async def __aenter__(self) -> Self:
        self._feed.begin(self._run(), "election while a group is held")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._feed.end()

    async def _run(self) -> None:
        deciding: asyncio.Task[None] | None = None
        async with self._holding:
            try:
                async for held in _after_the_first(self._holding):
                    if isinstance(held, Joined):
                        deciding = deciding or asyncio.create_task(self._elect(), name="election that decides")
                        continue
                    if deciding is not None:
                        deciding.cancel()  # first, so that it says nothing after the next line
                    self._feed.say(held)
                    await _ended(deciding)
                    deciding = None
            finally:
                await _ended(deciding)

    async def _elect(self) -> None:
        try:
            async with self._decide(self._info) as election:
                self._deciding = election
                async for membership in _after_the_first(election):
                    self._feed.say(membership)
        except Exception as error:  # noqa: BLE001 - what assign raised; `events` raises it
            self._failure = error
            self._feed.close()
        finally:
            self._deciding = None


async def _after_the_first(election: Election) -> AsyncIterator[Membership]:
    """Its events without that it begins to join, which is no news to who waits for more than one."""
    events = election.events()
    await anext(events, None)
    async for event in events:
        yield event


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
