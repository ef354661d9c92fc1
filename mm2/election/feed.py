"""What becomes of one membership: the present one, its changes for a reader, and the clock that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine

from mm2.election.protocol import Joined, Lost, Membership


class MembershipFeed:
    """Lives in one event loop. The clock says ``Lost`` when nobody proved in time that we are still a member; so does
    `membership` for who asks before the loop came to it, as after a process was stopped and went on."""

    def __init__(self, first: Lost, overdue: Callable[[], Lost]) -> None:
        """``overdue`` gives the words for a membership that the clock ended."""
        self._membership: Membership = first
        self._overdue = overdue
        self._changes: asyncio.Queue[Membership | None] = asyncio.Queue()
        self._changes.put_nowait(first)
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, work: Coroutine[None, None, None], name: str) -> None:
        """Do the work that tells the changes, in a task of its own; there are none after it."""
        self._task = asyncio.create_task(work, name=name)
        self._task.add_done_callback(lambda _: self.close())

    async def end(self) -> None:
        """End that work, if it is not over, and return when it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def membership(self) -> Membership:
        """As of now, by the clock too."""
        if self._timer is not None and asyncio.get_running_loop().time() >= self._timer.when():
            self._expire()
        return self._membership

    def say(self, membership: Membership) -> None:
        """Tell a change; what was said last is not said again."""
        if membership != self._membership:
            self._membership = membership
            self._changes.put_nowait(membership)

    def prove(self, *, since: float, lasting_ms: int) -> None:
        """Something we sent at loop time ``since`` was answered as to a member: we are one for so much longer."""
        self.stop_clock()
        self._timer = asyncio.get_running_loop().call_at(since + lasting_ms / 1000, self._expire)

    def stop_clock(self) -> None:
        """Nothing is to be ended by the clock any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """No more changes."""
        self.stop_clock()
        self._changes.put_nowait(None)

    async def changes(self) -> AsyncIterator[Membership]:
        """Every change from the first, for one reader, until `close`. Raises what the work raised."""
        while (change := await self._changes.get()) is not None:
            yield change
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    def _expire(self) -> None:
        self.stop_clock()
        if isinstance(self._membership, Joined):
            self.say(self._overdue())
