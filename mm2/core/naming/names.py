"""Basic names used everywhere: flows and topic-partitions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """Replication from one cluster alias to another, written ``A->B`` as in mm2.properties."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @classmethod
    def parse(cls, text: str) -> Flow:
        """Read ``A->B``. Raises ValueError if the arrow or one of the aliases is missing."""
        source, arrow, target = text.partition("->")
        if not (arrow and source and target):
            raise ValueError(f"{text!r} is not a flow: write source->target, for example A->B")
        return cls(source, target)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic, with the topic's name on its cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
