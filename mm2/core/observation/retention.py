"""How long the source still has the first record of a partition that is not copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RISK_BELOW_S = 86_400.0
"""A day is what operators need to find and repair a cause at a weekend."""

RETENTION_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes")
"""The configurations of a topic that decide when its records are deleted."""

MOVEMENT_S = 3_600.0
"""For how long the movement of a log start is remembered: deletion by size removes a segment at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRetention:
    """What deletes the records of a topic. ``ms`` and ``bytes`` None: no limit."""

    ms: int | None = None
    bytes: int | None = None

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is ever deleted, apart from compaction."""
        return self.ms is None and self.bytes is None

    @classmethod
    def of(cls, configs: Mapping[str, str | None]) -> TopicRetention | None:
        """Return the retention by the topic's effective configuration; None if it cannot be read."""
        policy, time, size = (configs.get(key) for key in RETENTION_KEYS)
        if policy is None or time is None or size is None:
            return None
        if "delete" not in {one.strip() for one in policy.split(",")}:
            return cls()
        try:
            limits = int(time), int(size)
        except ValueError:
            return None
        ms, limit = (None if one < 0 else one for one in limits)
        return cls(ms=ms, bytes=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStart:
    """The log start offset of a partition, and how it moved. Times are seconds of any one clock.

    ``moves``: the offsets and times of movements within the last `MOVEMENT_S`, oldest first.
    """

    offset: int
    moves: tuple[tuple[float, int], ...] = ()

    def seen(self, offset: int, now: float) -> LogStart:
        """Return the log start after it was seen at ``offset``. A lower one is that of a recreated topic."""
        if offset < self.offset:
            return LogStart(offset=offset)
        moves = tuple(one for one in self.moves if now - one[0] <= MOVEMENT_S)
        return LogStart(offset=offset, moves=moves if offset == self.offset else (*moves, (now, offset)))

    def offsets_per_second(self, now: float) -> float | None:
        """Return how fast the source deletes; None: unknown until it has deleted twice.

        What was deleted with the first movement does not count, as it is not known how long that took to fill.
        """
        if len(self.moves) < 2:
            return None
        (began, first), (_, last) = self.moves[0], self.moves[-1]
        return (last - first) / (now - began) if now > began else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionMargin:
    """What is left before the source deletes the first record that is not copied.

    ``records``: source offsets from the log start to it. ``seconds``: until then. None: unknown, or never.
    """

    records: int | None = None
    seconds: float | None = None


NO_MARGIN = RetentionMargin()


def retention_margin(
    position: int,
    start: LogStart,
    retention: TopicRetention | None,
    *,
    written_ms: int | None,
    now: float,
) -> RetentionMargin:
    """Return the margin of a partition with something left to copy, which begins at ``position``.

    ``written_ms``: the timestamp of the record there; None: unknown. ``retention`` None: unknown. ``now`` is in epoch
    seconds, and the clock of ``start``, too.

    Kafka deletes segments by their largest timestamp, so records live a little longer than their own one says. By size
    it deletes when a segment is full: the time is estimated at the rate at which the log start has moved, and only
    while it moves.
    """
    records = max(0, position - start.offset)
    if retention is None:
        return RetentionMargin(records=records)
    if retention.is_unlimited:
        return NO_MARGIN
    left: list[float] = []
    if retention.ms is not None and written_ms is not None:
        left.append(max(0.0, (written_ms + retention.ms) / 1_000 - now))
    rate = start.offsets_per_second(now) if retention.bytes is not None else None
    if rate is not None:
        left.append(records / rate)
    return RetentionMargin(records=records, seconds=min(left, default=None))


def is_at_risk(margin_s: float | None, lag_s: float | None) -> bool:
    """Return whether records are soon deleted before they are copied: within a day, and sooner than they were written.

    Without the second condition, a topic that keeps records for an hour would always be at risk. The alert
    MM2RetentionRisk has the same rule.
    """
    return margin_s is not None and lag_s is not None and margin_s < RISK_BELOW_S and margin_s < lag_s
