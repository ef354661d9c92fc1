"""What a node says of itself in the rounds of a flow, and when it says it anew."""

from __future__ import annotations

from collections.abc import Callable

from mm2.core.names import Flow
from mm2.election.protocol import Election, Joined, MemberInfo
from mm2.node.desk import Desk
from mm2.node.node_identity import NodeIdentity
from mm2.node.task_host import TaskHost


class MemberWord:
    """``leaving``: the node offers nothing any more."""

    def __init__(
        self,
        flow: Flow,
        identity: NodeIdentity,
        desk: Desk,
        host: TaskHost,
        joined: Callable[[], Joined | None],
        *,
        copies: bool,
        leaving: bool,
    ) -> None:
        """``joined`` gives the round that the node is part of. ``copies``: the flow needs lanes."""
        self._flow = flow
        self._identity = identity
        self._desk = desk
        self._host = host
        self._joined = joined
        self._copies = copies
        self.leaving = leaving
        self._election: Election | None = None
        self._offered = self._capacity()

    def speak_in(self, election: Election) -> None:
        """Say it there from now on."""
        self._election = election

    def info(self) -> MemberInfo:
        """What is said."""
        terms = self._identity.terms.get(self._flow)
        return MemberInfo(
            node_id=self._identity.node_id,
            url=self._identity.url,
            capacity=self._offered if not self.leaving else 0,
            tasks=tuple(sorted(str(task) for task in self._host.holds)),
            epoch=self._host.epoch,
            terms=terms.digest if terms is not None else "",
            version=self._identity.version,
        )

    def tell(self) -> None:
        """A task was let go, or something else changed that the leader waits to hear of."""
        self._offered = self._capacity()
        if self._election is not None:
            self._election.update(self.info())
        self._desk.wake()

    def look(self) -> bool:
        """Tell of it if the node offers more or less than before; whether it does."""
        if self._capacity() == self._offered:
            return False
        self.tell()
        return True

    def answered(self) -> None:
        """A round was taken in, which by itself is no reason for another."""
        if not self.look() and self._election is not None:
            self._election.update(self.info(), quiet=True)

    @property
    def others_offer(self) -> bool:
        """Whether another node could take over."""
        joined = self._joined()
        return joined is not None and any(
            info.capacity > 0 for member, info in joined.members.items() if member != joined.member_id
        )

    def _capacity(self) -> int:
        """The lanes on offer: none while the node leaves, or while no lane runs that could begin at once, unless it
        leads and nobody else offers any. Of several that are starting one has to be first: if each offered what it does
        not have yet while it sees no other offer, all would, and take it back when they see each other's."""
        joined = self._joined()
        ready = not self._copies or self._desk.ready
        first = joined is not None and joined.is_leader and not self.others_offer
        return self._desk.capacity if not self.leaving and (ready or first) else 0
