"""What the leader of a consumer group does: it assigns partitions to all members, also to Java's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping

from mm2.core.mirror1.assignors import ASSIGNORS
from mm2.core.mirror1.subscriber import Subscriber
from mm2.core.wire.consumer_protocol import decode_subscription, encode_assignment
from mm2.core.wire.formats import FormatError
from mm2.kafka.protocol.membership_requests import JoinedGroup

log = logging.getLogger(__name__)

PartitionsOf = Callable[[Collection[str]], Awaitable[Mapping[str, int]]]
"""Returns the partition counts of those topics that exist; may raise ClusterError."""


class GroupLeader:
    """The assignments of one member while it leads, and what they were computed from."""

    def __init__(self, partitions_of: PartitionsOf, where: str) -> None:
        """``where`` names the member in log lines."""
        self._partitions_of = partitions_of
        self._where = where
        self._topics: set[str] = set()  # of all members
        self._counts: dict[str, int] | None = None  # that were assigned; None: another member leads

    @property
    def leads(self) -> bool:
        """Whether this member led the last round."""
        return self._counts is not None

    def step_down(self) -> None:
        """Forget the last round: another member may lead."""
        self._counts = None

    async def assign(self, joined: JoinedGroup) -> dict[str, bytes]:
        """Return the assignments by member ID; none if the last ones are still valid (KIP-814). Raises ClusterError."""
        subscribers = []
        for member in joined.members:
            try:
                topics = decode_subscription(member.metadata)
            except FormatError as error:
                log.warning("%s: nothing is assigned to member %s: %s", self._where, member.member_id, error)
                topics = []
            subscribers.append(Subscriber(member_id=member.member_id, topics=topics, instance_id=member.instance_id))
        self._topics = {topic for member in subscribers for topic in member.topics}
        counts = self._counts = dict(await self._partitions_of(self._topics))
        if joined.skip_assignment:
            return {}
        found = ASSIGNORS[joined.protocol](subscribers, counts)
        return {member_id: encode_assignment(partitions) for member_id, partitions in found.items()}

    async def is_outdated(self) -> bool:
        """Return whether the partition counts have changed since `assign`. Raises ClusterError."""
        return self.leads and dict(await self._partitions_of(self._topics)) != self._counts
