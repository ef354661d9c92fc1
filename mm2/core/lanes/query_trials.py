"""Finding the record with which a query ends its process, such as Spark's JVM.

Nothing is recorded while all is well. When the processes of a query have died `DEATHS` times, its frames pass one after
the other, each announced to the node before: if a process dies again, the frame that was in the query is known. It then
passes in parts, of which the one that does not return is divided again, down to one record. So a frame of n records
costs log n deaths to the base `PARTS`, where halves would cost log2 n: a part is announced in milliseconds, and a JVM
starts in ten seconds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from mm2.core.naming.names import TopicPartition

DEATHS = 2
"""The first death may be an accident. Frames are announced after this many."""

SUSPECTED_FOR_S = 300.0
"""Deaths further apart do not count together, and frames are no longer announced when nothing has died for this long. A
lane that starts again meets the record as soon as it has repeated what was not stored: a minute's records by default
(offset.flush.interval.ms)."""

EXPLAINED_FOR_S = 120.0
"""As `SUSPECTED_FOR_S`, from the death on that a record was found to cause. Another partition with such a record meets
it as soon as its lane has started again; without one, there is no reason to be slow."""

PARTS = 128
"""A frame that ended a process passes in this many parts. Each takes some 20 ms, all of them less than a JVM takes to
start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSpan:
    """Source offsets of a partition, from ``first`` up to, not including, ``until``, that are in a query.

    ``topic_id``: of the source topic, if it is known: another topic of the name has other records. ``is_asked``: it is
    one record, for which the query has failed, and which is evaluated again for Spark's message.
    """

    topic: str
    partition: int
    first: int
    until: int
    topic_id: str | None = None
    is_asked: bool = False

    def __str__(self) -> str:
        last = "" if self.until == self.first + 1 else f"-{self.until - 1}"
        return f"{self.topic}-{self.partition} offset{'s' if last else ''} {self.first}{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectSpan:
    """Source offsets that pass in parts of ``step`` offsets, since a process of the query died with them."""

    span: FrameSpan
    step: int

    def end_of_part(self, start: int) -> int | None:
        """Return where a frame from source offset ``start`` on has to end; None: anywhere."""
        if start >= self.span.until:
            return None
        return self.span.first if start < self.span.first else min(start + self.step, self.span.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class FatalRecord:
    """The only record of ``span`` ends the query, as ``why`` says: it must not pass through it."""

    span: FrameSpan
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTrial:
    """How frames pass through a query: ``announced``, each is alone in it, and the node knows which one it is."""

    announced: bool = False
    suspects: tuple[SuspectSpan, ...] = ()
    fatal: tuple[FatalRecord, ...] = ()


NO_TRIAL = QueryTrial()


class QuerySuspects:
    """What is suspected of ending the processes of one query of a flow, on one node.

    (A) A record is fatal only if two processes have died with it, the second while it was alone in the query; or if one
        died when the query was evaluated to find out why it fails for the record. Alone means: no other announced frame
        was in a query of the node. If a lane dies alone, other lanes of the query run on, and what they had sent before
        their orders to announce frames arrived can still be in the query for a moment.
    (B) What has returned from the query is not suspected any more.
    (C) When a fatal record is found, here or in another query of the node, frames are announced for a shorter time.
    """

    def __init__(self) -> None:
        self._deaths = 0
        self._until = 0.0
        self._why = ""
        self._suspects: dict[TopicPartition, SuspectSpan] = {}
        self._fatal: dict[TopicPartition, dict[int, FatalRecord]] = {}

    @property
    def trial(self) -> QueryTrial:
        """How frames pass through the query now."""
        return QueryTrial(
            announced=self._deaths >= DEATHS or bool(self._suspects),
            suspects=tuple(self._suspects.values()),
            fatal=tuple(record for records in self._fatal.values() for record in records.values()),
        )

    def died(self, frame: FrameSpan | None, why: str, now: float) -> str | None:
        """Processes of the query died because of ``why``, with this announced frame in it; None: it is not known.

        Return what to log about the frame. ``now`` is in seconds of a monotonic clock.
        """
        self._deaths = self._deaths + 1 if now <= self._until else 1
        self._until, self._why = now + SUSPECTED_FOR_S, why
        if frame is None:
            return None
        place, count = TopicPartition(frame.topic, frame.partition), frame.until - frame.first
        before = self._suspects.pop(place, None)
        is_again = before is not None and before.span.first <= frame.first < before.span.until
        if frame.is_asked or (count == 1 and is_again):
            self._fatal.setdefault(place, {})[frame.first] = FatalRecord(span=frame, why=why)
            return f"{why} each time that {frame} was in it; this record does not pass through it again"
        self._suspects[place] = SuspectSpan(span=frame, step=-(-count // PARTS))
        return f"{why} with {frame} in it, which pass in parts now" if count > 1 else f"{why} with {frame} in it"

    def explained(self, now: float) -> None:
        """The cause of the last death is found."""
        self._until = min(self._until, now + EXPLAINED_FOR_S)

    def passed(self, frame: FrameSpan) -> None:
        """An announced frame has returned from the query."""
        place = TopicPartition(frame.topic, frame.partition)
        suspect = self._suspects.get(place)
        if suspect is None or frame.is_asked or not frame.first <= suspect.span.first < frame.until:
            return
        if frame.until < suspect.span.until:
            self._suspects[place] = replace(suspect, span=replace(suspect.span, first=frame.until))
        else:
            del self._suspects[place]

    def expire(self, now: float) -> None:
        """Forget deaths, and what is suspected since then, if they are long ago."""
        if now > self._until:
            self._deaths = 0
            self._suspects.clear()

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Let everything of these partitions pass again, as an operator asked for."""
        for partition in partitions:
            self._suspects.pop(partition, None)
            self._fatal.pop(partition, None)

    @property
    def reason(self) -> str | None:
        """Why frames are announced; None if they are not."""
        if not self.trial.announced:
            return None
        spans = ", ".join(str(one.span) for one in self._suspects.values())
        return f"{self._why}; looking for the record{f': it is in {spans}' if spans else ''}"
