"""The metadata that a node sends when it joins a rebalance of a flow, and when it sends it again."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mm2.core.assignment.tasks import TaskKind
from mm2.core.naming.names import Flow
from mm2.election.protocol import Election, Joined, MemberInfo
from mm2.node.engine.lease_service import LeaseService, Wake
from mm2.node.flow.task_host import TaskHost
from mm2.node.identity import NodeIdentity


class MemberMetadata:
    """Builds the member metadata of this node and reports changes to the leader.

    While ``leaving`` the node offers no capacity. ``election`` is set once it exists.
    """

    def __init__(
        self,
        flow: Flow,
        identity: NodeIdentity,
        lease_service: LeaseService,
        host: TaskHost,
        joined: Callable[[], Joined | None],
        *,
        kinds: Callable[[], Collection[str]],
        leaving: bool,
    ) -> None:
        """``joined`` returns the current membership, if any; ``kinds`` the kinds of tasks that this file enables."""
        self._flow = flow
        self._identity = identity
        self._lease_service = lease_service
        self._host = host
        self._joined = joined
        self._kinds = kinds
        self.leaving = leaving
        self.election: Election | None = None
        self._offered = self._capacity()

    def info(self) -> MemberInfo:
        """Return the current metadata."""
        terms = self._identity.terms.get(self._flow)
        return MemberInfo(
            node_id=self._identity.node_id,
            url=self._identity.url,
            capacity=self._offered if not self.leaving else 0,
            tasks=tuple(sorted(str(task) for task in self._host.holds)),
            epoch=self._host.epoch,
            terms=terms.digest if terms is not None else "",
            version=self._identity.version,
            kinds=tuple(sorted(self._kinds())),
        )

    def report(self) -> None:
        """Report to the leader that a task was released, or that other metadata it waits for has changed."""
        self._offered = self._capacity()
        if self.election is not None:
            self.election.update(self.info())
        self._lease_service.wake(Wake.RELEASED)

    def report_capacity(self) -> bool:
        """Report the capacity if it has changed; return whether it has."""
        if self._capacity() == self._offered:
            return False
        self.report()
        return True

    def acknowledge(self) -> None:
        """Report that an assignment was applied, which by itself causes no rebalance."""
        if not self.report_capacity() and self.election is not None:
            self.election.update(self.info(), quiet=True)

    @property
    def others_offer(self) -> bool:
        """Whether another node offers capacity for all kinds of tasks that this one runs."""
        joined, kinds = self._joined(), set(self._kinds())
        return joined is not None and any(
            info.capacity > 0 and kinds <= set(info.kinds)
            for member, info in joined.members.items()
            if member != joined.member_id
        )

    def _capacity(self) -> int:
        """Return the number of lanes that this node offers.

        It is 0 while the node leaves, and while no lane is running that could start a task immediately, unless the node
        leads and no other node offers any. Only the leader makes this exception: if every starting node offered lanes
        before they run, all would withdraw their offers as soon as they see those of the others.
        """
        joined = self._joined()
        ready = TaskKind.SOURCE not in self._kinds() or self._lease_service.ready  # only source tasks need lanes
        first = joined is not None and joined.is_leader and not self.others_offer
        return self._lease_service.capacity if not self.leaving and (ready or first) else 0
