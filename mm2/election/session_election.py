"""Common part of the elections that have a session of their own."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Self

from mm2.election.membership_stream import MembershipStream
from mm2.election.protocol import Assign, Lost, MemberInfo, Membership


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
