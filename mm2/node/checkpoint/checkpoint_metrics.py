"""Totals of a flow's checkpoint tasks on this node since the node started."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mm2.node.status.monotonic_counters import MonotonicCounters
from mm2.node.status.status_model import Latency

_NONE = Latency()


class CheckpointMetrics:
    """Totals over all successive runs of the checkpoint task."""

    def __init__(self) -> None:
        self._latency: dict[str, Latency] = {}
        self._skipped: MonotonicCounters[str] = MonotonicCounters()
        self._topics: set[str] = set()
        self._runs = 0

    def begin(self) -> str:
        """Return a name for the next run of the task, whose counters start at 0."""
        self._runs += 1
        return f"run {self._runs}"

    def acknowledged(self, group: str, seconds: float) -> None:
        """Record that a checkpoint of ``group`` was acknowledged ``seconds`` after its timestamp."""
        so_far = self._latency.get(group, _NONE)
        self._latency[group] = Latency(count=so_far.count + 1, seconds=so_far.seconds + max(0.0, seconds))

    def keep(self, groups: Collection[str]) -> None:
        """Forget all other groups, so that names that are no longer used do not accumulate."""
        self._latency = {group: latency for group, latency in self._latency.items() if group in groups}

    def skipped(self, run: str, counts: Mapping[str, int]) -> None:
        """Record how many records the task named ``run`` has skipped so far, by topic."""
        for topic, count in counts.items():
            self._topics.add(topic)
            self._skipped.fold(topic, run, (count,))

    @property
    def latency_by_group(self) -> Mapping[str, Latency]:
        """The latency of each group, as a copy for other threads."""
        return self._latency.copy()

    @property
    def skipped_by_topic(self) -> Mapping[str, int]:
        """The number of skipped records by topic, including 0, so that metrics show the first increase."""
        return {topic: int(self._skipped.get(topic, (0,))[0]) for topic in sorted(self._topics)}
