"""The losses of a flow since the node started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mm2.core.lanes.lease import Loss
from mm2.core.naming.names import TopicPartition

LOSSES_KEPT = 100
"""As many as one source task reports. They are part of every status, and a partition whose retention is faster than its
replication loses records again and again."""


class Losses:
    """The newest losses, and the number of lost offsets of each partition, which includes older ones.

    A source task repeats its newest losses with every report, and the last one of a partition can still grow.
    """

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int, int], Loss] = {}
        self._reported: dict[int, tuple[str, Sequence[Loss]]] = {}
        self._totals: dict[TopicPartition, int] = {}

    @property
    def newest(self) -> tuple[Loss, ...]:
        """At most `LOSSES_KEPT` losses, the newest last."""
        return tuple(self._newest.values())

    @property
    def totals(self) -> Mapping[TopicPartition, int]:
        """The number of lost offsets of each partition that has lost any."""
        return dict(self._totals)

    def take(self, source_task: int, run: str, losses: Sequence[Loss]) -> None:
        """Apply a source task's report; ``run`` identifies the run of the source task."""
        last_run, before = self._reported.get(source_task, ("", ()))
        self._reported[source_task] = run, losses
        if losses is before or not losses:
            return
        known = set(before) if run == last_run else set()
        for loss in losses:
            if loss not in known:
                self._add(loss)

    def forget(self, partition: TopicPartition) -> None:
        """Forget the total of a partition that no longer exists."""
        self._totals.pop(partition, None)

    def _add(self, loss: Loss) -> None:
        key = loss.topic, loss.partition, loss.first
        before = self._newest.pop(key, None)
        counted = before.until if before is not None else loss.first
        partition = TopicPartition(loss.topic, loss.partition)
        self._totals[partition] = self._totals.get(partition, 0) + max(0, loss.until - counted)
        self._newest[key] = replace(loss, until=max(loss.until, counted))
        if len(self._newest) > LOSSES_KEPT:
            del self._newest[next(iter(self._newest))]
