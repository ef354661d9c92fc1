"""The losses of a flow since the node started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mm2.core.lanes.losses import LOSSES_KEPT, Loss, LossKey
from mm2.core.naming.names import TopicPartition


class Losses:
    """The newest losses, and how many losses and lost offsets each partition has had, which includes older ones.

    A source task repeats its newest losses with every report, and the last one of a partition can still grow.
    """

    def __init__(self) -> None:
        self._newest: dict[LossKey, Loss] = {}
        self._reported: dict[int, tuple[str, Sequence[Loss]]] = {}
        self._totals: dict[TopicPartition, int] = {}
        self._counts: dict[TopicPartition, int] = {}

    @property
    def newest(self) -> tuple[Loss, ...]:
        """At most `LOSSES_KEPT` losses, the newest last."""
        return tuple(self._newest.values())

    @property
    def totals(self) -> Mapping[TopicPartition, int]:
        """The number of lost offsets of each partition that has lost any."""
        return dict(self._totals)

    @property
    def counts(self) -> Mapping[TopicPartition, int]:
        """The number of losses of each partition that has had any."""
        return dict(self._counts)

    def take(self, source_task: int, run: str, losses: Sequence[Loss]) -> list[Loss]:
        """Apply a source task's report; ``run`` identifies the run of the source task. Return the new losses."""
        last_run, before = self._reported.get(source_task, ("", ()))
        self._reported[source_task] = run, losses
        if losses is before or not losses:
            return []
        known = set(before) if run == last_run else set()
        return [loss for loss in losses if loss not in known and self._add(loss)]

    def forget(self, partition: TopicPartition) -> None:
        """Forget the totals of a partition that no longer exists."""
        self._totals.pop(partition, None)
        self._counts.pop(partition, None)

    def _add(self, loss: Loss) -> bool:
        """Add a loss, or the new extent of a known one; return whether it is new."""
        before = self._newest.pop(loss.key, None)
        if before is None:
            offsets, count = loss.offsets, loss.count
        else:
            offsets, count = max(0, loss.offsets - before.offsets), max(0, loss.count - before.count)
            loss = loss if loss.until >= before.until else before
        partition = TopicPartition(loss.topic, loss.partition)
        self._totals[partition] = self._totals.get(partition, 0) + offsets
        self._counts[partition] = self._counts.get(partition, 0) + count
        self._newest[loss.key] = loss
        if len(self._newest) > LOSSES_KEPT:
            del self._newest[next(iter(self._newest))]
        return before is None
