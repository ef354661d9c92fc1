"""Totals of a flow's checkpoint task since the node started, over all times that this node led the flow."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mm2.node.published import Latency
from mm2.node.totals import Totals

_NONE = Latency()


class CheckpointTally:
    """Written by one checkpoint task after the other."""

    def __init__(self) -> None:
        self._latency: dict[str, Latency] = {}
        self._skipped: Totals[str] = Totals()
        self._topics: set[str] = set()
        self._runs = 0

    def begin(self) -> str:
        """A name for the next task, which begins to count at 0."""
        self._runs += 1
        return f"run {self._runs}"

    def acknowledged(self, group: str, seconds: float) -> None:
        """A checkpoint of ``group`` is stored, so long after the time it bears."""
        so_far = self._latency.get(group, _NONE)
        self._latency[group] = Latency(count=so_far.count + 1, seconds=so_far.seconds + max(0.0, seconds))

    def keep(self, groups: Collection[str]) -> None:
        """Forget all other groups: names that nobody uses again would pile up for as long as the node lives."""
        self._latency = {group: latency for group, latency in self._latency.items() if group in groups}

    def skipped(self, run: str, counts: Mapping[str, int]) -> None:
        """Records the task named ``run`` has skipped so far, by topic."""
        for topic, count in counts.items():
            self._topics.add(topic)
            self._skipped.fold(topic, run, (count,))

    @property
    def latency_by_group(self) -> Mapping[str, Latency]:
        """A copy, for other threads."""
        return self._latency.copy()

    @property
    def skipped_by_topic(self) -> Mapping[str, int]:
        """Topics without any are left in: a counter that begins at 0 shows its first step."""
        return {topic: int(self._skipped.get(topic, 1)[0]) for topic in sorted(self._topics)}
