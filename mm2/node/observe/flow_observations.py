"""What a node knows of the partitions of a flow that no lane reports, and the status of the flow with that."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.observation.retention import NO_MARGIN, LogStart, TopicRetention, retention_margin
from mm2.core.offsets.start_offset import stored_lag
from mm2.core.settings.client import FetchSettings
from mm2.node.status.status_model import FlowStatus, PartitionStatus, TopicStatus

END_VALID_S = 10.0
"""As in lanes: an end offset that was not observed for this long is out of date."""

BEHIND_S = 30.0
"""A partition whose next record is older than this has a retention margin. Others are copied right now, and cost the
source no requests."""

REFRESH_S = 5.0
"""How often the age of what is left to copy is computed again, while nothing else changes."""


@dataclass(slots=True, kw_only=True)
class Needs:
    """What is missing of some partitions: end offsets, log starts, stored offsets, the timestamp at an offset, and the
    retention of topics."""

    ends: set[TopicPartition] = field(default_factory=set)
    starts: set[TopicPartition] = field(default_factory=set)
    positions: set[TopicPartition] = field(default_factory=set)
    times: dict[TopicPartition, int] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)

    def add(self, other: Needs) -> None:
        """Add those of other partitions."""
        self.ends |= other.ends
        self.starts |= other.starts
        self.positions |= other.positions
        self.times |= other.times
        self.topics |= other.topics

    @property
    def is_empty(self) -> bool:
        """Whether nothing is missing."""
        return not (self.ends or self.starts or self.positions or self.times or self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filled:
    """A topic as it was given, and as it is shown. ``wanted`` None: lanes report all of it."""

    given: TopicStatus
    version: tuple[int, int]
    shown: TopicStatus
    wanted: Needs | None


class FlowObservations:
    """Fills the gaps of a flow's status: end offsets, positions, lags and retention margins of partitions that this
    node has, or no node, while no lane reports them.

    (A) A topic that needs nothing is passed on as the same object, so that thousands of unchanged partitions cost
        nothing.
    (B) A position is certain, or unknown. Certain are the stored offset, read since this node has the partition, and
        what a lane of this node reported last, while the partition has been this node's ever since. A node that is no
        member of the flow's group cannot know what others have copied since: positions are then unknown, unless it was
        the only member. After it has joined again, only stored offsets that were read since count.
    (C) An end offset is known if it was observed within the last `END_VALID_S`; older ones are shown as the last known.
        The lag of a partition whose position is unknown is shown as it was when its lane reported it last, and as an
        upper bound: positions only move forward.
    (D) While the node is no member, the topics of its last status are shown, as WAITING; those of other nodes without
        progress.
    (E) The age of what is left to copy is that of the batch at the position, by its timestamp, or unknown. A lane that
        runs the partition knows it better, unless the partition is FAILED, and possibly nothing of it was fetched.

    Used on the event loop by the node that publishes its status, and by `SourceObserver`.
    """

    def __init__(self, node_id: str, fetch: FetchSettings, clock: Callable[[], float] = time.time) -> None:
        """``fetch`` says where partitions without a stored offset start. ``clock`` returns epoch seconds."""
        self._ours = ("", node_id)
        self._fetch = fetch
        self._clock = clock
        self._members: int | None = None  # of the last status in which the node was one
        self._is_member = False
        self._lost: tuple[tuple[TopicStatus, ...], tuple[TopicStatus, ...]] | None = None
        self._last: FlowStatus | None = None  # as given, of a member
        self._topics: dict[str, _Filled] = {}
        self._changes = 0
        self._expires = float("inf")
        self._ends: dict[TopicPartition, tuple[int, float]] = {}
        self._starts: dict[TopicPartition, LogStart] = {}
        self._reported: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int | None] = {}
        self._last_lags: dict[TopicPartition, tuple[int, int, float]] = {}  # lag, end offset and time
        self._times: dict[TopicPartition, tuple[int, int | None]] = {}
        self._retention: Mapping[str, TopicRetention | None] = {}
        self.needs = Needs()

    # -- observations

    def take_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """The source has these end offsets now."""
        now = self._clock()
        self._ends |= {one: (end, now) for one, end in ends.items()}
        self._changes += 1

    def take_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """The logs of the source start at these offsets now."""
        now = self._clock()
        for one, offset in starts.items():
            before = self._starts.get(one)
            self._starts[one] = LogStart(offset=offset) if before is None else before.seen(offset, now)
        self._changes += 1

    def take_stored(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """These source offsets are stored on the target now; None: there is none."""
        wanted = self.needs.positions if self._is_member else ()
        self._stored |= {one: position for one, position in positions.items() if one in wanted}
        self._changes += 1

    def take_times(self, times: Mapping[TopicPartition, tuple[int, int | None]]) -> None:
        """The batches at these offsets have these timestamps, in epoch ms; None: they have none."""
        self._times |= times
        self._changes += 1

    def take_retention(self, retention: Mapping[str, TopicRetention | None]) -> None:
        """The topics have this retention; None: it cannot be read."""
        self._retention = retention
        self._changes += 1

    # -- status

    def fill(self, status: FlowStatus, *, members: int | None, is_alone: bool = True) -> FlowStatus:
        """Return ``status`` with what is known besides.

        ``members``: those of the flow's group, if this node is one. ``is_alone`` False: another program may be in the
        group instead.
        """
        now = self._clock()
        status = self._with_membership(status, members, is_alone=is_alone)
        if now >= self._expires:
            self._expires = float("inf")
            self._changes += 1
        version = self._changes, int(now // REFRESH_S)
        wanted = Needs()
        shown = []
        for topic in status.topics:
            filled = self._topic(topic, version, now)
            shown.append(filled.shown)
            if filled.wanted is not None:
                wanted.add(filled.wanted)
        self._forget_others(status.topics)
        self.needs = wanted
        return replace(status, topics=tuple(shown))

    def _with_membership(self, status: FlowStatus, members: int | None, *, is_alone: bool) -> FlowStatus:
        """Return the status with the topics to show, and keep (B)."""
        if members is not None:
            if not self._is_member:
                self._reported.clear()
                self._stored.clear()
            self._is_member, self._members, self._lost, self._last = True, members, None, status
            return status
        if self._is_member and self._last is not None:
            last = self._last
            self._lost = tuple(map(_waiting, last.topics)), tuple(map(_waiting, last.elsewhere))
        self._is_member = False
        if not is_alone:
            self._members = None
        if self._lost is None or status.topics:
            return status
        return replace(status, topics=self._lost[0], elsewhere=self._lost[1])

    def _topic(self, topic: TopicStatus, version: tuple[int, int], now: float) -> _Filled:
        kept = self._topics.get(topic.topic)
        if kept is not None and kept.given is topic and (kept.wanted is None or kept.version == version):
            return kept
        if kept is None or kept.given is not topic:
            self._note(topic, {} if kept is None else {one.partition: one for one in kept.given.partitions}, now)
        wanted = Needs()
        found = tuple(self._partition(topic.topic, one, wanted, now) for one in topic.partitions)
        same = all(one is other for one, other in zip(found, topic.partitions, strict=True))
        filled = _Filled(
            given=topic,
            version=version,
            shown=topic if same else replace(topic, partitions=found),
            wanted=None if wanted.is_empty else wanted,
        )
        self._topics[topic.topic] = filled
        return filled

    def _note(self, topic: TopicStatus, before: Mapping[int, PartitionStatus], now: float) -> None:
        """Keep what lanes do not report any more; drop what is out of date, by (B)."""
        for one in topic.partitions:
            key = TopicPartition(topic.topic, one.partition)
            last = before.get(one.partition)
            if one.node not in self._ours:
                self._reported.pop(key, None)
                self._stored.pop(key, None)
                self._last_lags.pop(key, None)
                continue
            if one.position is not None:
                self._reported.pop(key, None)
                self._stored.pop(key, None)
                if one.end_offset is not None:
                    continue
            elif last is not None and last.position is not None and last.node == one.node:
                self._reported[key] = last.position
                if last.lag_records is not None and last.end_offset is not None:
                    self._last_lags[key] = last.lag_records, last.end_offset, now - END_VALID_S
            if one.end_offset is None and one.observed is None and last is not None and last.node == one.node:
                if last.end_offset is not None:  # the lane has observed it, at the earliest END_VALID_S ago
                    self._ends[key] = last.end_offset, now - END_VALID_S
                elif last.last_end_offset is not None and last.observed is not None:
                    self._ends[key] = last.last_end_offset, last.observed / 1_000

    def _partition(self, topic: str, one: PartitionStatus, wanted: Needs, now: float) -> PartitionStatus:
        has_lane = one.lag_records is not None and one.state is not TaskState.FAILED
        if one.node not in self._ours or (has_lane and (not one.lag_records or (one.lag_seconds or 0.0) <= BEHIND_S)):
            return one
        key = TopicPartition(topic, one.partition)
        end, observed, last_end = self._end(key, one, now)
        position = one.position
        if position is None:
            wanted.positions.add(key)
            position = self._position(key, end)
        if one.end_offset is None:
            wanted.ends.add(key)
        lag, last_lag = _difference(end, position), _difference(last_end, position)
        at_most = _difference(end, self._least_position(key)) if position is None else None
        if position is None and key in self._last_lags:
            last_lag, last_end, at = self._last_lags[key]
            observed = round(at * 1_000)
        if lag or one.position is None:
            wanted.starts.add(key)
        if has_lane and one.lag_seconds is not None:
            written: int | None = round((now - one.lag_seconds) * 1_000)
        else:
            written = self._written(key, position, wanted if lag else None)
        seconds = one.lag_seconds if has_lane else _age(lag, written, now)
        margin = NO_MARGIN
        if lag and position is not None:
            wanted.topics.add(topic)
            if (start := self._starts.get(key)) is not None:
                retention = self._retention.get(topic)
                margin = retention_margin(position, start, retention, written_ms=written, now=now)
        found = replace(
            one,
            position=position,
            end_offset=end,
            lag_records=lag,
            lag_seconds=seconds,
            observed=observed,
            last_end_offset=last_end,
            last_lag_records=last_lag,
            lag_records_at_most=at_most,
            retention_margin_records=margin.records,
            retention_margin_seconds=margin.seconds,
        )
        return one if found == one else found

    def _written(self, key: TopicPartition, position: int | None, wanted: Needs | None) -> int | None:
        """Return the timestamp of the batch at ``position``, in epoch ms, and add it to what is ``wanted``."""
        known = self._times.get(key)
        if known is not None and known[0] == position:
            return known[1]
        if wanted is not None and position is not None:
            wanted.times[key] = position
        return None

    def _end(self, key: TopicPartition, one: PartitionStatus, now: float) -> tuple[int | None, int | None, int | None]:
        """Return the end offset, or when the last one was observed, and that one: (C)."""
        seen = self._ends.get(key)
        if one.end_offset is not None or seen is None:
            return one.end_offset, one.observed, one.last_end_offset
        offset, at = seen
        if now - at < END_VALID_S:
            self._expires = min(self._expires, at + END_VALID_S)
            return offset, None, None
        if one.observed is not None and one.observed > at * 1_000:
            return None, one.observed, one.last_end_offset
        return None, round(at * 1_000), offset

    def _position(self, key: TopicPartition, end: int | None) -> int | None:
        """Return where copying continues; None if that is not certain: (B)."""
        start = self._starts.get(key)
        if not self._is_member and self._members != 1:
            return None
        if key not in self._stored and key not in self._reported:
            return None
        stored = self._stored[key] if key in self._stored else self._reported[key]
        if start is None or end is None:
            return None if stored is None or (end is not None and stored > end) else stored
        fetch = self._fetch
        if stored is None and isinstance(fetch.start, int):
            return None  # by a time: only a lane looks that up
        policy, first = fetch.auto_offset_reset, fetch.start
        return stored_lag(stored, earliest=start.offset, latest=end, end=end, policy=policy, start=first).position

    def _least_position(self, key: TopicPartition) -> int | None:
        """Return a position that copying has reached, also if another node continued since; None if none is known."""
        return max((one for one in (self._stored.get(key), self._reported.get(key)) if one is not None), default=None)

    def _forget_others(self, topics: Iterable[TopicStatus]) -> None:
        """Forget the topics that the flow does not have any more."""
        present = {topic.topic for topic in topics}
        gone = self._topics.keys() - present
        if not gone:
            return
        for topic in gone:
            del self._topics[topic]
        for known in (self._ends, self._starts, self._reported, self._stored, self._times, self._last_lags):
            for key in [key for key in known if key.topic in gone]:
                del known[key]


def _difference(end: int | None, position: int | None) -> int | None:
    return None if end is None or position is None else max(0, end - position)


def _age(lag: int | None, written: int | None, now: float) -> float | None:
    if lag == 0:
        return 0.0
    return None if lag is None or written is None else max(0.0, now - written / 1_000)


def _waiting(topic: TopicStatus) -> TopicStatus:
    """Return the topic as it is after the node has lost its membership: (D)."""
    return replace(
        topic,
        state=TaskState.FAILED if topic.error is not None else TaskState.WAITING,
        partitions=tuple(
            replace(
                one,
                state=TaskState.WAITING,
                position=None,
                end_offset=None,
                lag_records=None,
                lag_seconds=None,
                error=None,
                step=None,
                observed=None,
                last_end_offset=None,
                last_lag_records=None,
                lag_records_at_most=None,
            )
            for one in topic.partitions
        ),
    )
