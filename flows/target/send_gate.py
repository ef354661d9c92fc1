"""With which producer id a partition sends, and when: at once, or only in an open transaction."""

from __future__ import annotations

from typing import Protocol

from flows.partition.replicator import PartitionReplicator


class SendGate(Protocol):
    """``transactional_id`` belongs to the batches if they are transactional."""

    @property
    def transactional_id(self) -> str | None: ...

    def admits(self, partition: PartitionReplicator, /) -> bool:
        """Return whether the next batch may be sent now. If not, the partition is offered to the producer again."""

    def sent(self, size: int, /) -> None:
        """A batch of ``size`` bytes is being sent."""

    def answered(self) -> None:
        """A request was answered, or failed."""


class ProducerIdSource(Protocol):
    """Gives partitions the producer id to send with. ``warning``: why it is weaker than it should be."""

    warning: str | None

    @property
    def is_idempotent(self) -> bool:
        """Whether the target recognizes a batch that is sent twice."""

    def assign(self, partition: PartitionReplicator, /) -> None:
        """Assign the partition a producer id that it has not used, now or as soon as there is one."""

    def disable_idempotence(self, reason: str, /) -> None:
        """The target does not permit idempotent writes."""


class AlwaysOpen:
    """At least once: batches are sent outside transactions."""

    transactional_id = None

    def admits(self, _: PartitionReplicator) -> bool:
        return True

    def sent(self, size: int) -> None: ...

    def answered(self) -> None: ...
