"""A minimal election backend: one process, one member.

It has everything a backend needs except its entry in BACKENDS.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from mm2.config.grammar.java_types import String, one_of
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties
from mm2.config.keys.declaration import key
from mm2.config.keys.election_keys import BackendKeys, FlowElection
from mm2.config.keys.update_mode import UpdateMode
from mm2.core.naming.names import Flow
from mm2.core.settings.election import Backend, ElectionSettings
from mm2.election.protocol import Assign, Joined, Lost, MemberInfo, Membership

BACKEND = Backend(keys=f"{__name__}:MemoryKeys", election=f"{__name__}:MemoryElection")


class MemoryKeys(BackendKeys):
    room: Annotated[String, one_of("one", "two")] = key("mm2.memory.room", "one", "Where.", update_mode=UpdateMode.NODE)

    def elections(self, properties: Properties, problems: ProblemLog) -> FlowElection | None:
        del properties, problems  # the only key has no dependencies
        return lambda flow, _: MemorySettings(room=self.room, flow=flow)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings(ElectionSettings):
    backend: ClassVar[str] = "memory"

    room: str
    flow: Flow
    session_timeout_ms: int = 1_000

    @property
    def places(self) -> tuple[str, ...]:
        return (f"memory {self.room}/{self.flow}",)


class MemoryElection:
    def __init__(self, settings: MemorySettings, info: MemberInfo, assign: Assign, group: Joined) -> None:
        self._settings = settings
        self._info = info
        self._assign = assign
        self._group = group
        self.membership: Membership = Lost(reason="not entered")

    async def __aenter__(self) -> Self:
        members = {"m": self._info}
        answer = self._assign(1, members).get("m")
        self.membership = Joined(generation=1, member_id="m", leader_id="m", members=members, assignment=answer)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.membership = Lost(reason="left")

    def certain_for(self) -> float:
        return float("inf") if isinstance(self.membership, Joined) else 0.0

    contact = float("-inf")

    async def events(self) -> AsyncIterator[Membership]:
        yield Lost(reason="joining")
        yield self.membership
        await asyncio.Event().wait()

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None: ...

    def expect_rebalance(self, wanted: bool) -> None: ...

    def request_round(self) -> None: ...

    def group_changed(self, group: Joined) -> None:
        self._group = group
