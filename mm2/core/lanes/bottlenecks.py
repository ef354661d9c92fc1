"""What limits the pace of partitions that are behind: what they wait for, for how long, and the message about it.

A lane looks at each partition several times a second. For a partition that is behind, `waits_for` names what it waits
for, the time since the last look counts for that, and `limited_by` makes a message of the sums of the last minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mm2.core.lanes.partition_steps import FetchStep, RecentWaits, SendStep, Wait

WINDOW_S = 60.0
"""The message is about the last minute: quotas and buffers make pauses of some seconds, and no operator wants to wait
longer for a change to show."""

WINDOW_PARTS = 6
"""The window moves in steps of ten seconds."""

BEHIND_AFTER_S = 1.0
"""A partition is behind if it had not copied everything for so long, and has no younger record to copy. What is on its
way for less time is not a lag: lanes report once a second, and batches wait for linger and for each other."""

BUSY_SHARE = 0.9
"""A lane that works for this share of the time is the limit of what it copies: it has one thread, and some of its time
is between two pieces of work."""

LONG_ROUND_TRIP_S = 0.005
"""Within a data centre round trips take less. Below that, the window of requests is never the limit."""

ROUND_TRIPS_OF_WINDOW = 3.0
"""Answers that take so many round trips, or less, are as quick as the link permits: one is the round trip, the others
leave time for the broker, its replicas and the size of the request."""

NOTICEABLE_SHARE = 0.25
"""A second cause is named if it has at least a quarter of the time."""


class Bottleneck(StrEnum):
    """What a partition that is behind waits for."""

    SOURCE = "source"
    SOURCE_QUOTA = "source-quota"
    SOURCE_LINK = "source-link"
    SOURCE_ERRORS = "source-errors"
    LIMIT = "limit"
    ROOM = "room"
    QUERY = "query"
    LANE = "lane"
    TARGET = "target"
    TARGET_QUOTA = "target-quota"
    TARGET_LINK = "target-link"
    TARGET_ERRORS = "target-errors"
    COMMIT = "commit"


MEANINGS: Mapping[Bottleneck, str] = {
    Bottleneck.SOURCE: "the source: fetch responses",
    Bottleneck.SOURCE_QUOTA: "the source: quota",
    Bottleneck.SOURCE_LINK: "the link to the source: one fetch per round trip",
    Bottleneck.SOURCE_ERRORS: "the source: it does not answer, or fetches fail",
    Bottleneck.LIMIT: "mm2.max.bytes.per.second",
    Bottleneck.ROOM: "room in the lane's buffer (mm2.lane.buffer.bytes)",
    Bottleneck.QUERY: "the query",
    Bottleneck.LANE: "this lane's CPU",
    Bottleneck.TARGET: "the target: acknowledgements",
    Bottleneck.TARGET_QUOTA: "the target: quota",
    Bottleneck.TARGET_LINK: "the link to the target: window full",
    Bottleneck.TARGET_ERRORS: "the target: it does not answer, or batches fail",
    Bottleneck.COMMIT: "transactions: their commit",
}
"""How the message names each cause, after "limited by"."""

CAUGHT_UP = "caught up"
KEEPS_PACE = "keeps pace: nothing waited for longer than a second during the last minute"
NO_DATA = "no data for the last minute"
LAG_UNKNOWN = "the lag is unknown, and nothing waited during the last minute"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """The cluster at one side of a partition, as its broker is seen now.

    ``is_throttling``: it has reported a throttle time that is not over. ``answer_s``: seconds until it answered the
    last request with records; ``round_trip_s``: until the cluster answered the quickest request; None: none yet.
    """

    is_throttling: bool = False
    answer_s: float | None = None
    round_trip_s: float | None = None

    @property
    def is_link_bound(self) -> bool:
        """Whether answers are as quick as the link permits, so that more in flight would be faster."""
        answer, trip = self.answer_s, self.round_trip_s
        if answer is None or trip is None or trip < LONG_ROUND_TRIP_S:
            return False
        return answer <= ROUND_TRIPS_OF_WINDOW * trip


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLook:
    """A partition that is behind, as it is seen now.

    ``has_unsent``: it holds records that can be sent next. ``has_fetched_all``: up to the end of the source.
    ``is_retrying``: the target did not accept the last batch. ``source_is_silent``, ``target_is_silent``: for 10 s.
    ``awaits_room``: a fetch waits for room in the lane's buffer. ``has_uncommitted``: a transaction with records of it
    is open. ``busy_share``: of the last interval, how much the lane worked; None: unknown.
    """

    fetching: FetchStep
    sending: SendStep
    has_unsent: bool = False
    has_fetched_all: bool = False
    is_retrying: bool = False
    source_is_silent: bool = False
    target_is_silent: bool = False
    awaits_room: bool = False
    has_uncommitted: bool = False
    busy_share: float | None = None
    source: ClusterLook = ClusterLook()
    target: ClusterLook = ClusterLook()


_NOT_SLOW = frozenset({FetchStep.STOPPED, FetchStep.DRAINING})
_FETCH_FAILED = frozenset({FetchStep.PAUSED, FetchStep.AWAITS_TRUNCATION, FetchStep.AWAITS_UNREADABLE})
_SEND_FAILED = frozenset(
    {
        SendStep.ROLLING_BACK,
        SendStep.AWAITS_SIZE_LIMIT,
        SendStep.SETTLING,
        SendStep.BACKOFF,
        SendStep.AWAITS_BOUNDARY,
    }
)
_BEING_PACKED = frozenset({SendStep.DIVIDING, SendStep.PACKING})
_AWAITS_TARGET = frozenset(
    {SendStep.AWAITS_DEAD_LETTER, SendStep.AWAITS_START_STORED, SendStep.AWAITS_PRODUCER_ID, SendStep.WRITING}
)
_FULL = frozenset({FetchStep.FULL, FetchStep.MEMORY_RELEASED})


def waits_for(look: PartitionLook) -> Bottleneck | None:  # noqa: PLR0911 - one line for each rule
    """Return what the partition waits for: the first of these rules that applies. None: nothing, or it is not slow.

    1. One that is stopped or leaves is not slow.
    2. Errors and brokers that do not answer, at the target before the source: what is rejected is fetched again.
    3. Where it waits: for the target if it holds records to send, or may hold no more; for the query if records are in
       it; otherwise for what is missing, or for the limit of the flow, whatever else is slow.
    4. There: a quota that the broker has reported; the lane if it works all the time, whose answers then wait for it;
       the link if answers are as quick as it permits.
    """
    if look.fetching in _NOT_SLOW:
        return None
    if look.sending in _SEND_FAILED or look.is_retrying or look.target_is_silent:
        return Bottleneck.TARGET_ERRORS
    if look.fetching in _FETCH_FAILED or look.source_is_silent:
        return Bottleneck.SOURCE_ERRORS
    place = _place(look)
    if place is Bottleneck.LIMIT:
        return place
    if place is Bottleneck.TARGET and look.target.is_throttling:
        return Bottleneck.TARGET_QUOTA
    if place is Bottleneck.SOURCE and look.source.is_throttling:
        return Bottleneck.SOURCE_QUOTA
    if place is not None and look.busy_share is not None and look.busy_share >= BUSY_SHARE:
        return Bottleneck.LANE
    if place is Bottleneck.TARGET and look.target.is_link_bound:
        return Bottleneck.TARGET_LINK
    if place is Bottleneck.SOURCE and look.source.is_link_bound:
        return Bottleneck.SOURCE_LINK
    return place


def _place(look: PartitionLook) -> Bottleneck | None:  # noqa: PLR0911 - one line for each place
    if look.sending in _BEING_PACKED:
        return Bottleneck.LANE
    if look.sending in _AWAITS_TARGET:
        return Bottleneck.TARGET
    if look.has_unsent:
        return Bottleneck.TARGET
    if look.sending is SendStep.AWAITS_QUERY:
        return Bottleneck.QUERY
    if look.fetching in _FULL:
        return Bottleneck.TARGET
    if look.fetching is FetchStep.LIMITED:
        return Bottleneck.LIMIT
    if not look.has_fetched_all:
        return Bottleneck.ROOM if look.awaits_room else Bottleneck.SOURCE
    if look.sending is SendStep.IN_FLIGHT:
        return Bottleneck.TARGET
    return Bottleneck.COMMIT if look.has_uncommitted else None


def sum_of_waits(parts: Iterable[RecentWaits | None]) -> RecentWaits | None:
    """Return the waits of all parts together; None: none of them is known."""
    known = [one for one in parts if one is not None]
    if not known:
        return None
    seconds: dict[str, float] = {}
    for one in known:
        for wait in one.waits:
            seconds[wait.on] = seconds.get(wait.on, 0.0) + wait.seconds
    return RecentWaits(waits=waits_of(seconds), behind=max(one.behind for one in known))


def waits_of(seconds: Mapping[str, float]) -> tuple[Wait, ...]:
    """Return the seconds by cause as they are reported, to tenths."""
    return tuple(Wait(on=cause, seconds=round(length, 1)) for cause, length in seconds.items())


class WaitingTimes:
    """Counts what was waited for: in total, and during the last minute. ``now`` is monotonic seconds."""

    __slots__ = ("_parts", "total")

    def __init__(self) -> None:
        self.total: dict[Bottleneck, float] = {}
        self._parts: deque[tuple[int, dict[Bottleneck, float], list[float]]] = deque(maxlen=WINDOW_PARTS + 1)

    def add(self, waited: Mapping[Bottleneck, float], behind: float, now: float) -> None:
        """Count seconds by cause, of the ``behind`` seconds until ``now``."""
        part = int(now * WINDOW_PARTS / WINDOW_S)
        if not self._parts or self._parts[-1][0] != part:
            self._parts.append((part, {}, [0.0]))
        _, recent, seconds = self._parts[-1]
        seconds[0] += behind
        for cause, length in waited.items():
            recent[cause] = recent.get(cause, 0.0) + length
            self.total[cause] = self.total.get(cause, 0.0) + length

    def recent(self, now: float) -> RecentWaits:
        """Return the last minute: the current part of the window, and the five or six before it."""
        first = int(now * WINDOW_PARTS / WINDOW_S) - WINDOW_PARTS
        while self._parts and self._parts[0][0] <= first:
            self._parts.popleft()
        seconds: dict[str, float] = {}
        for _, waited, _ in self._parts:
            for cause, length in waited.items():
                seconds[cause.value] = seconds.get(cause.value, 0.0) + length
        behind = sum(part[2][0] for part in self._parts)
        return RecentWaits(waits=waits_of(seconds), behind=round(min(WINDOW_S, behind), 1))


class PartitionWaits:
    """What one partition has waited for during the last minute. It holds nothing while the partition keeps pace: a
    source task can have thousands."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: WaitingTimes | None = None

    def add(self, cause: Bottleneck, seconds: float, now: float) -> None:
        """Count that it was behind and waited for this, for the ``seconds`` until ``now``."""
        if self._times is None:
            self._times = WaitingTimes()
        self._times.add({cause: seconds}, seconds, now)

    def recent(self, now: float) -> RecentWaits:
        """Return the last minute."""
        if self._times is None:
            return _NO_WAITS
        recent = self._times.recent(now)
        if not recent.waits:
            self._times = None
        return recent


_NO_WAITS = RecentWaits()


def limited_by(last_minute: RecentWaits | None, *, lag: int | None) -> str:
    """Return the message about a partition or a flow.

    ``last_minute`` None: no lane reports it. ``lag``: source offsets that are not copied; None: unknown.
    """
    if last_minute is None:
        return NO_DATA
    if lag == 0:
        return CAUGHT_UP
    shares = _shares({wait.on: wait.seconds for wait in last_minute.waits})
    if not shares or last_minute.behind < BEHIND_AFTER_S:
        return LAG_UNKNOWN if lag is None else KEEPS_PACE
    (cause, share), *others = shares
    period = "minute" if last_minute.behind >= WINDOW_S - WINDOW_S / WINDOW_PARTS else f"{last_minute.behind:.0f} s"
    text = f"limited by {MEANINGS[cause]}, {share:.0%} of the last {period}".replace("%", " %")
    for other, less in others:
        if less >= NOTICEABLE_SHARE:
            text += f"; by {MEANINGS[other]}, {less:.0%}".replace("%", " %")
    return text


_EMPTIES_BUFFER = frozenset(
    {
        *(Bottleneck.QUERY, Bottleneck.LANE, Bottleneck.COMMIT),
        *(Bottleneck.TARGET, Bottleneck.TARGET_QUOTA, Bottleneck.TARGET_LINK, Bottleneck.TARGET_ERRORS),
    }
)


def _shares(seconds: Mapping[str, float]) -> list[tuple[Bottleneck, float]]:
    """Return the causes with their shares of the time, the largest first; of causes of later releases, none.

    Room is missing because something does not empty the buffer. If that is seen in the same minute, it is the cause.
    """
    known = {cause: seconds[cause.value] for cause in Bottleneck if seconds.get(cause.value, 0.0) > 0}
    emptying = {cause: waited for cause, waited in known.items() if cause in _EMPTIES_BUFFER}
    if Bottleneck.ROOM in known and emptying:
        most = max(emptying, key=emptying.__getitem__)
        known[most] += known.pop(Bottleneck.ROOM)
    total = sum(known.values())
    return sorted(((cause, waited / total) for cause, waited in known.items()), key=lambda one: -one[1])
