"""What a member of a consumer group tells the program that it is a part of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mm2.core.naming.names import TopicPartition


class AssignmentHandler(Protocol):
    """Starts and stops partitions. Exceptions end `ConsumerMember.run`, which raises them.

    Before the next `assigned` comes `revoked`, or `lost`, or a `revoked` that is cancelled and then `lost`.
    """

    async def assigned(self, partitions: set[TopicPartition], generation: int) -> None:
        """Start these partitions; there are no others. Is cancelled if the membership ends meanwhile."""

    async def revoked(self) -> None:
        """Stop all partitions, complete what is in flight and commit; another member may get them afterwards.

        The membership continues until this returns, but no longer than max.poll.interval.ms. Is cancelled if it ends.
        """

    def lost(self) -> None:
        """Stop all partitions at once and commit nothing: other members may have them already. Must not raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """A member's state.

    ``generation`` and ``partitions`` are None without an assignment. ``trouble`` is the error that is being retried.
    """

    generation: int | None = None
    partitions: frozenset[TopicPartition] | None = None
    is_leader: bool = False
    trouble: str | None = None
