"""How far one partition is copied, and what is known of the way there."""

from __future__ import annotations

from flows.batch.outgoing import Outgoing
from flows.surroundings import Seen
from mm2.core.lease import Loss
from mm2.core.names import TopicPartition


class Headway:
    """Source offsets, unless said otherwise.

    (A) ``position`` is the first one not known to be copied (-1: not known yet); ``stored`` is where a restart would
        go on. No record at or after the position counts as stored.
    (B) Every move of the position is told with what was seen on the way. Offsets that auto.offset.reset jumped over are
        not among it: nobody looked whether they carry records.
    """

    def __init__(self, start: int | None, *, stored: int | None, now: float) -> None:
        self.position = -1 if start is None else start
        self.stored = stored
        self.last_copied: int | None = None
        self.end_offset = -1
        self.remote_end = 0  # the target offset after the last record whose place is known
        self.caught_up = now
        self.losses: list[Loss] = []
        self._jumped = Seen(0, 0)

    def lose(self, source: TopicPartition, first: int, until: int, reason: str) -> None:
        """Offsets from ``first`` up to, not including, ``until`` can no longer be copied."""
        loss = Loss(topic=source.topic, partition=source.partition, first=first, until=until, reason=reason)
        self.losses.append(loss)

    def jump(self, seen: int, offset: int) -> None:
        """The position will move to ``offset``. Before ``seen`` there is nothing; what follows was not looked at."""
        if seen < offset:
            self._jumped = Seen(seen, offset)

    def move_to(self, until: int) -> Seen:
        """All before ``until`` is copied or carries nothing; returns what was seen of it, beside what was copied."""
        since, jumped = max(self.position, 0), self._jumped
        self.position = until
        return Seen(since, min(until, jumped.since) if since < jumped.until and jumped.since < until else until)

    def copied(self, batch: Outgoing) -> Seen:
        """The target has this batch and all before it."""
        self.last_copied = batch.last_offset
        return self.move_to(batch.until)

    def look(self, now: float) -> None:
        """Take note if nothing is left to copy."""
        if self.position >= self.end_offset >= 0:
            self.caught_up = now

    def lag_seconds(self, oldest_waiting: int, now: float, wall: float) -> float:
        """0 when caught up, else how old the first batch not yet copied is, by its timestamp ``oldest_waiting`` (epoch
        ms, -1 if not known); while that is not known, how long ago the partition was caught up."""
        if self.position >= self.end_offset:
            return 0.0
        return max(0.0, wall - oldest_waiting / 1000 if oldest_waiting >= 0 else now - self.caught_up)
