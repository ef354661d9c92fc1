"""The election of a flow: by its Kafka group, or by another system while that group is held.

The group excludes a Java MirrorMaker, which does not use that system, and nodes that are configured to elect by the
group itself: they offer another protocol name in it, so the broker rejects the node that joins second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Self

from mm2.core.settings.election import ElectionSettings
from mm2.election.kafka.group_messages import HOLDING
from mm2.election.kafka.kafka_group import GroupSettings, KafkaGroup
from mm2.election.membership_stream import MembershipStream
from mm2.election.protocol import Assign, DecidingElection, Election, Joined, Json, Lost, MemberInfo, Membership
from mm2.kafka.client.cluster import Cluster

Decide = Callable[[MemberInfo, Joined], DecidingElection]
"""Creates the deciding election, not entered yet, with the group's last rebalance; called each time the group is
joined."""


class GroupGuardedElection:
    """An `Election` in two steps: only a member of the held group takes part in the deciding election.

    A node that the target cluster rejects can therefore never lead. Generations are those of the deciding election.

    A node that dies is replaced when the first of its memberships ends: its tasks ran only while both were certain.
    """

    def __init__(self, holding: Election, decide: Decide, info: MemberInfo) -> None:
        """``holding`` is the group, not entered yet; its assignments are ignored."""
        self._holding = holding
        self._decide = decide
        self._info = info
        self._group: Joined | None = None  # its last rebalance with this node
        self._deciding: DecidingElection | None = None
        self._stream = MembershipStream(
            Lost(reason="joining the group"), lambda: Lost(reason="no contact")
        )  # its clock is not used
        self._failure: Exception | None = None

    @property
    def membership(self) -> Membership:
        """The current state."""
        held = self._holding.membership
        if isinstance(held, Joined) and self._deciding is not None:
            return self._deciding.membership
        return self._stream.membership if isinstance(held, Joined) else held

    def certain_for(self) -> float:
        """Return for how many seconds both memberships are certain: without the group, a Java MirrorMaker could run."""
        if self._deciding is None:
            return 0.0
        return min(self._holding.certain_for(), self._deciding.certain_for())

    @property
    def contact(self) -> float:
        """When the newest answered request was sent that proved both memberships."""
        return min(self._holding.contact, self._deciding.contact) if self._deciding is not None else float("-inf")

    def update(self, info: MemberInfo, *, quiet: bool = False) -> None:
        """Replace this member's metadata; a change starts a rebalance, unless ``quiet``."""
        self._info = info
        if self._deciding is not None:
            self._deciding.update(info, quiet=quiet)

    def expect_rebalance(self, wanted: bool) -> None:
        """Set whether a rebalance is expected."""
        if self._deciding is not None:
            self._deciding.expect_rebalance(wanted)

    def request_round(self) -> None:
        """Start a rebalance if this node leads."""
        if self._deciding is not None:
            self._deciding.request_round()

    async def events(self) -> AsyncIterator[Membership]:
        """Yield every change from the start; see `Election.events`."""
        async for change in self._stream.changes():
            yield change
        if self._failure is not None:
            raise self._failure

    async def __aenter__(self) -> Self:
        self._stream.start(self._run(), "election while a group is held")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.stop()

    async def _run(self) -> None:
        deciding: asyncio.Task[None] | None = None
        async with self._holding:
            try:
                async for held in _after_the_first(self._holding):
                    if isinstance(held, Joined):
                        self._group = held
                        if self._deciding is not None:
                            self._deciding.group_changed(held)
                        deciding = deciding or asyncio.create_task(self._elect(), name="election that decides")
                        continue
                    if deciding is not None:
                        deciding.cancel()  # first, so that it publishes nothing after the next line
                    self._stream.publish(held)
                    await _ended(deciding)
                    deciding = None
            finally:
                await _ended(deciding)

    async def _elect(self) -> None:
        assert self._group is not None
        try:
            async with self._decide(self._info, self._group) as election:
                self._deciding = election
                async for membership in _after_the_first(election):
                    self._stream.publish(membership)
        except Exception as error:  # noqa: BLE001 - an exception of assign, which `events` raises
            self._failure = error
            self._stream.close()
        finally:
            self._deciding = None


async def _after_the_first(election: Election) -> AsyncIterator[Membership]:
    """Yield the events without the first, which only reports that the election is joining."""
    events = election.events()
    await anext(events, None)
    async for event in events:
        yield event


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


ElectionOfGroup = Callable[[Cluster, GroupSettings, MemberInfo, Assign], Election]
"""Creates the election of a Kafka group, not entered yet."""


def choose_election(
    backend: ElectionSettings | None,
    cluster: Cluster,
    group: GroupSettings,
    info: MemberInfo,
    assign: Assign,
    *,
    by_group: ElectionOfGroup = KafkaGroup,
) -> Election:
    """Return a flow's election, not entered yet: by ``backend`` if given, otherwise by the ``group`` itself.

    ``cluster`` is a separate client of the flow's target. A group that is only held has one protocol name for each of
    the backend's places, so the broker rejects a node that uses a different election.
    """
    if backend is None:
        return by_group(cluster, group, info, assign)
    protocols = tuple(f"{HOLDING}{place}" for place in backend.places)
    held = by_group(cluster, replace(group, protocols=protocols), info, _assign_nothing)
    return GroupGuardedElection(held, lambda latest, joined: backend.make(latest, assign, joined), info)


def _assign_nothing(_generation: int, _members: Mapping[str, MemberInfo]) -> dict[str, Json]:
    """Return no assignments: in a held group the backend assigns."""
    return {}
