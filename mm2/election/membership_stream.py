"""The state of one membership, its changes for a reader, and the session clock that ends it; the common part of the
elections that have a session of their own."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Self

from mm2.election.protocol import Assign, Joined, Lost, MemberInfo, Membership
from mm2.kafka.clock import session_clock


class MembershipStream:
    """The membership of one election in one event loop; it becomes ``Lost`` if it is not extended in time.

    `membership` also checks the clock itself: after the process was suspended, the loop has not run its timers yet.
    Times are seconds of `session_clock`.
    """

    def __init__(self, first: Lost, overdue: Callable[[], Lost], *, clock: Callable[[], float] = session_clock) -> None:
        """``overdue`` returns the ``Lost`` of a membership that timed out."""
        self._membership: Membership = first
        self._overdue = overdue
        self._clock = clock
        self._changes: asyncio.Queue[Membership | None] = asyncio.Queue()
        self._changes.put_nowait(first)
        self._timer: asyncio.TimerHandle | None = None
        self._certain_until: float | None = None  # None: the clock is stopped
        self.contact = float("-inf")  # see `Election.contact`
        self._task: asyncio.Task[None] | None = None

    def start(self, work: Coroutine[None, None, None], name: str) -> None:
        """Run ``work``, which publishes the changes, in a task; the stream is closed when it ends."""
        self._task = asyncio.create_task(work, name=name)
        self._task.add_done_callback(lambda _: self.close())

    async def stop(self) -> None:
        """Cancel the task of `start`, unless it is done, and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def membership(self) -> Membership:
        """The current state."""
        if self._certain_until is not None and self._clock() >= self._certain_until:
            self._expire()
        return self._membership

    def certain_for(self) -> float:
        """Return for how many seconds the membership is certain; 0 without one. See `Election.certain_for`."""
        if not isinstance(self.membership, Joined) or self._certain_until is None:
            return 0.0
        return max(0.0, self._certain_until - self._clock())

    def publish(self, membership: Membership) -> None:
        """Publish a change; a repetition of the last one is ignored."""
        if membership != self._membership:
            self._membership = membership
            self._changes.put_nowait(membership)

    def extend(self, *, since: float, lasting_ms: int) -> None:
        """Extend the membership to ``lasting_ms`` after ``since``, when an answered request was sent."""
        self.stop_clock()
        self.contact = since
        self._certain_until = since + lasting_ms / 1000
        self._set_timer(self._certain_until)

    def stop_clock(self) -> None:
        """Stop the session clock."""
        self._certain_until = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Close the stream: no more changes."""
        self.stop_clock()
        self._changes.put_nowait(None)

    async def changes(self) -> AsyncIterator[Membership]:
        """Yield every change from the first, for one reader, until `close`. Raises exceptions of the work."""
        while (change := await self._changes.get()) is not None:
            yield change
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    def _set_timer(self, until: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(max(0.0, until - self._clock()), self._check_clock)

    def _check_clock(self) -> None:
        """End the membership if its time is over; the loop's clock can be a little ahead."""
        if self._certain_until is not None and self._clock() < self._certain_until:
            self._set_timer(self._certain_until)
        else:
            self._expire()

    def _expire(self) -> None:
        self.stop_clock()
        if isinstance(self._membership, Joined):
            self.publish(self._overdue())


class SessionElection(ABC):
    """An `Election` whose subclass runs one task, `_run`. It publishes the membership and extends its session."""

    def __init__(self, info: MemberInfo, assign: Assign, *, store: str, name: str) -> None:
        """``store``: where the members meet, for messages; ``name``: of the task."""
        self._info = info
        self._assign = assign
        self._name = name
        self._wake = asyncio.Event()
        self._stream = MembershipStream(Lost(reason=f"joining {store}"), self._overdue)

    @property
    def membership(self) -> Membership:
        """The current state."""
        return self._stream.membership

    def certain_for(self) -> float:
        """Return for how many seconds the membership is certain; see `Election.certain_for`."""
        return self._stream.certain_for()

    @property
    def contact(self) -> float:
        """When the newest answered request was sent that proved the membership."""
        return self._stream.contact

    def events(self) -> AsyncIterator[Membership]:
        """Yield every change from the start; see `Election.events`."""
        return self._stream.changes()

    async def __aenter__(self) -> Self:
        self._stream.start(self._run(), self._name)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.stop()

    @abstractmethod
    async def _run(self) -> None:
        """Take part in the election until cancelled."""

    @abstractmethod
    def _overdue(self) -> Lost:
        """Return the reason of a membership whose session ended without contact."""
