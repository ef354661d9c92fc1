"""Comparison of a remote topic with its source, partition by partition: key, value, headers, timestamp, order.

The history comes first, the judgement second: when something is wrong, both sides are written down and named.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.lab.history import (
    Content,
    Partitions,
    Record,
    count,
    end_offset_client,
    end_offset_sum,
    read_topic,
    save_histories,
)
from tests.lab.ports import port_answers
from tests.lab.waiting import GaveUp, Observations

GROWS = 10.0  # seconds without a further record after which a copy counts as stopped
SETTLED = 1.0  # seconds without a further record after which a copy is judged again
PAUSE = 0.1  # seconds between two reads of the remote topic's end offsets
EXAMPLES = 3  # of each kind of difference in a message

Transform = Callable[[Record], Record | None]  # what a flow makes of a source record; None: it is not copied


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The differences of a copy. ``changed`` pairs a source record with the remote record that corresponds to it;
    ``foreign`` are remote records without a source record. ``stale`` are last copies behind the last copy of a newer
    record: a previous owner wrote them after its successor, and a compacted topic keeps them."""

    records: int
    lost: tuple[Record, ...] = ()
    duplicated: tuple[Record, ...] = ()
    reordered: tuple[Record, ...] = ()
    changed: tuple[tuple[Record, Record], ...] = ()
    foreign: tuple[Record, ...] = ()
    stale: tuple[Record, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing is lost, stale, changed, reordered or foreign. Duplicates are allowed, as with at-least-once.

        While an owner repeats records, those that it has not repeated yet make others stale.
        """
        return not (self.lost or self.stale or self.beyond_repair)

    @property
    def beyond_repair(self) -> bool:
        """Whether there are differences that later records cannot correct."""
        return bool(self.reordered or self.changed or self.foreign)

    @property
    def exact(self) -> bool:
        """Whether it is `complete` without duplicates."""
        return self.complete and not self.duplicated

    def __str__(self) -> str:
        parts = [f"{self.records} source records"]
        for name in ("lost", "duplicated", "reordered", "changed", "foreign", "stale"):
            found = getattr(self, name)
            if found:
                parts.append(f"{len(found)} {name}: " + "; ".join(_example(one) for one in found[:EXAMPLES]))
        return "\n  ".join(parts) if len(parts) > 1 else f"{parts[0]}, copied exactly"


def compare(source: Partitions, remote: Partitions) -> Verdict:
    """Compare two histories, partition by partition."""
    verdicts = [
        _compare_partition(source.get(partition, ()), remote.get(partition, ()))
        for partition in sorted({*source, *remote})
    ]
    return Verdict(
        records=sum(verdict.records for verdict in verdicts),
        lost=tuple(one for verdict in verdicts for one in verdict.lost),
        duplicated=tuple(one for verdict in verdicts for one in verdict.duplicated),
        reordered=tuple(one for verdict in verdicts for one in verdict.reordered),
        changed=tuple(one for verdict in verdicts for one in verdict.changed),
        foreign=tuple(one for verdict in verdicts for one in verdict.foreign),
        stale=tuple(one for verdict in verdicts for one in verdict.stale),
    )


def _compare_partition(source: Sequence[Record], remote: Sequence[Record]) -> Verdict:
    if [one.content for one in source] == [one.content for one in remote]:
        return Verdict(records=len(source))
    wanted = Counter(one.content for one in source)
    first_copies: list[Record] = []
    duplicated: list[Record] = []
    foreign: list[Record] = []
    for one in remote:
        if one.content not in wanted:
            foreign.append(one)
        elif wanted[one.content]:
            wanted[one.content] -= 1
            first_copies.append(one)
        else:
            duplicated.append(one)
    present, missing = _divide(source, wanted)
    changed, lost, invented = _pair(missing, foreign)
    return Verdict(
        records=len(source),
        lost=tuple(lost),
        duplicated=tuple(duplicated),
        reordered=tuple(copy for one, copy in zip(present, first_copies, strict=True) if one.content != copy.content),
        changed=tuple(changed),
        foreign=tuple(invented),
        stale=_stale(source, remote) if duplicated else (),
    )


def _stale(source: Sequence[Record], remote: Sequence[Record]) -> tuple[Record, ...]:
    """Last copies that lie behind the last copy of a later source record; of equal source records the last counts.

    An owner that resumes at an earlier position repeats everything from there, so its last copies are in order.
    """
    last_copy = {one.content: place for place, one in enumerate(remote)}
    found: list[Record] = []
    newest = len(remote)
    for content in dict.fromkeys(one.content for one in reversed(source)):
        place = last_copy.get(content, -1)
        if place > newest:
            found.append(remote[place])
        elif place >= 0:
            newest = place
    return tuple(reversed(found))


def _divide(source: Sequence[Record], missing_times: Counter[Content]) -> tuple[list[Record], list[Record]]:
    """Source records that have a copy, and those that have none: of equal ones the last."""
    present: list[Record] = []
    missing: list[Record] = []
    for one in reversed(source):
        if missing_times[one.content]:
            missing_times[one.content] -= 1
            missing.append(one)
        else:
            present.append(one)
    return present[::-1], missing[::-1]


def _pair(
    missing: Sequence[Record], foreign: Sequence[Record]
) -> tuple[list[tuple[Record, Record]], list[Record], list[Record]]:
    """A missing and a foreign record that agree in their value, or in key and timestamp, are one that was changed.

    Returns the pairs, the missing ones that are left, and the foreign ones that are left.
    """
    marks: defaultdict[object, list[int]] = defaultdict(list)
    for place, one in enumerate(missing):
        for mark in _marks(one.content):
            marks[mark].append(place)
    pairs: list[tuple[Record, Record]] = []
    paired: set[int] = set()
    unpaired: list[Record] = []
    for after in foreign:
        free = [place for mark in _marks(after.content) for place in marks[mark] if place not in paired]
        if free:
            paired.add(free[0])
            pairs.append((missing[free[0]], after))
        else:
            unpaired.append(after)
    return pairs, [one for place, one in enumerate(missing) if place not in paired], unpaired


def _marks(content: Content) -> list[object]:
    key, value, _, timestamp = content
    return [("value", value), ("key", key, timestamp)] if value else [("key", key, timestamp)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copied:
    """A copy that was found correct and is checked again at the end of the test."""

    source: tuple[str, str]
    repeats_allowed: bool
    isolation: str
    end_offset_sum: int
    transform: Transform | None


_copied: dict[tuple[str, str], _Copied] = {}  # by (bootstrap, topic) of the remote topic; the last judgement counts


def wait_until_copied(
    source: tuple[str, str],
    remote: tuple[str, str],
    timeout: float,
    *,
    repeats_allowed: bool = False,
    isolation: str = "read_committed",
    transform: Transform | None = None,
) -> Verdict:
    """Wait until the remote (bootstrap, topic) has all records that the source (bootstrap, topic) has now, and compare.

    ``transform``: of a flow with a query; by default records are copied as they are. `judge_again` checks the copy once
    more at the end of the test, for records that arrive later.

    Raises GaveUp with the verdict and the location of both histories if the copy is wrong: duplicates are wrong unless
    ``repeats_allowed``. A copy that is correct so far and still growing at the deadline is only late: the message is
    then ``not within``, and so is one that has not begun. A copy that has stopped growing is wrong.
    """
    wanted = transformed(read_topic(*source, isolation=isolation), transform)
    deadline = time.monotonic() + timeout
    client = end_offset_client(remote[0])
    end = 0
    grew = float("-inf")
    ends = Observations()
    while True:
        now = time.monotonic()
        before, end = end, end_offset_sum(*remote, client)
        grew = now if end > before else grew
        ends.add(end)
        late = now > deadline
        if late or end >= count(wanted):
            got = read_topic(*remote, isolation=isolation)
            verdict = compare(wanted, got)
            if verdict.exact or (verdict.complete and repeats_allowed):
                _copied[remote] = _Copied(
                    source=source,
                    repeats_allowed=repeats_allowed,
                    isolation=isolation,
                    end_offset_sum=end,
                    transform=transform,
                )
                return verdict
            wrong = verdict.beyond_repair or (verdict.duplicated and not repeats_allowed)
            going = end == 0 or now - grew < GROWS  # end 0: the program has not even begun
            if late and not wrong and going and is_behind(wanted, verdict):
                raise GaveUp(
                    f"not within {timeout:g} s: all of {source[1]} arrives; {len(verdict.lost)} are to come; "
                    f"end offsets of {remote[1]}, summed: {ends}"
                )
            if late or wrong:
                raise GaveUp(
                    f"{remote[1]} is not a copy of {source[1]} ({timeout:g} s allowed): {verdict}\n"
                    f"end offsets of {remote[1]}, summed: {ends}\n"
                    f"histories: {save_histories(source[1], wanted, got)}"
                )
        time.sleep(PAUSE)


def transformed(source: Partitions, transform: Transform | None) -> Partitions:
    """Return what a flow makes of these source records."""
    if transform is None:
        return source
    return {
        partition: [after for one in records if (after := transform(one)) is not None]
        for partition, records in source.items()
    }


def is_behind(source: Partitions, verdict: Verdict) -> bool:
    """Return whether only the ends of partitions are missing, without later records."""
    missing = {(one.partition, one.offset) for one in verdict.lost}
    tails = Counter(partition for partition, _ in missing)
    return all(
        (partition, one.offset) in missing for partition, number in tails.items() for one in source[partition][-number:]
    )


def forget() -> None:
    """Clear the copies to check again, at the start of a test."""
    _copied.clear()


def judge_again() -> None:
    """Check every copy of the test once more: later records must be correct too.

    Missing records are not checked, because a test can continue to write. Deleted topics and stopped clusters are
    skipped.

    Raises GaveUp as `wait_until_copied` does.
    """
    for remote, before in _copied.items():
        if not (_answers(remote[0]) and _answers(before.source[0])):
            continue
        if end_offset_sum(*remote) <= before.end_offset_sum:
            continue
        got = _read_to_end(remote, before.isolation)
        wanted = transformed(read_topic(*before.source, isolation=before.isolation), before.transform)
        verdict = compare(wanted, got)
        wrong = verdict.stale or verdict.beyond_repair or (verdict.duplicated and not before.repeats_allowed)
        if wanted and wrong:
            raise GaveUp(
                f"{remote[1]} was a copy of {before.source[1]}, but is not at the end of the test: {verdict}\n"
                f"histories: {save_histories(before.source[1], wanted, got)}"
            )


def _read_to_end(remote: tuple[str, str], isolation: str) -> Partitions:
    """Return the records of a topic once it has stopped growing, or after `GROWS`: an owner may be repeating some."""
    deadline = time.monotonic() + GROWS
    client = end_offset_client(remote[0])
    end = end_offset_sum(*remote, client)
    while time.monotonic() < deadline:
        time.sleep(SETTLED)
        before, end = end, end_offset_sum(*remote, client)
        if end == before:
            break
    return read_topic(*remote, isolation=isolation)


def _answers(bootstrap: str) -> bool:
    return any(port_answers(int(address.rpartition(":")[2])) for address in bootstrap.split(","))


def _example(one: Record | tuple[Record, Record]) -> str:
    return f"{one[0]} became {one[1]}" if isinstance(one, tuple) else str(one)
