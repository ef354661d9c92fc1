"""Is the remote topic the source topic? Compared partition by partition: key, value, headers, timestamp, order.

The history comes first, the judgement second: when something is wrong, both sides are written down and named.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.lab.history import Content, Partitions, Record, count, end_offset_sum, read_topic, save_histories
from tests.lab.waiting import GaveUp

PAUSE = 0.1  # seconds between two looks at the remote topic's end offsets
EXAMPLES = 3  # of each kind of difference in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is wrong with a copy. ``changed`` pairs a source record with the remote one that stands for it; ``foreign``
    are remote records that no source record explains."""

    records: int
    lost: tuple[Record, ...] = ()
    duplicated: tuple[Record, ...] = ()
    reordered: tuple[Record, ...] = ()
    changed: tuple[tuple[Record, Record], ...] = ()
    foreign: tuple[Record, ...] = ()

    @property
    def complete(self) -> bool:
        """Nothing lost, changed, reordered or invented; repetitions are allowed, as at-least-once allows them."""
        return not (self.lost or self.beyond_repair)

    @property
    def beyond_repair(self) -> bool:
        """Wrong in a way that no further record can make good."""
        return bool(self.reordered or self.changed or self.foreign)

    @property
    def exact(self) -> bool:
        """`complete`, and nothing repeated."""
        return self.complete and not self.duplicated

    def __str__(self) -> str:
        parts = [f"{self.records} source records"]
        for name in ("lost", "duplicated", "reordered", "changed", "foreign"):
            found = getattr(self, name)
            if found:
                parts.append(f"{len(found)} {name}: " + "; ".join(_example(one) for one in found[:EXAMPLES]))
        return "\n  ".join(parts) if len(parts) > 1 else f"{parts[0]}, copied exactly"


def compare(source: Partitions, remote: Partitions) -> Verdict:
    """Judge two histories, partition by partition."""
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
    )


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


def wait_until_copied(
    source: tuple[str, str],
    remote: tuple[str, str],
    timeout: float,
    *,
    repeats_allowed: bool = False,
    isolation: str = "read_committed",
) -> Verdict:
    """Until the remote (bootstrap, topic) holds all records the source (bootstrap, topic) holds now, and judge it.

    Raises GaveUp with the verdict and the place of both histories when the copy is not complete in time, or is wrong:
    repeated records are wrong unless ``repeats_allowed``.
    """
    wanted = read_topic(*source, isolation=isolation)
    deadline = time.monotonic() + timeout
    while True:
        late = time.monotonic() > deadline
        if late or end_offset_sum(*remote) >= count(wanted):
            got = read_topic(*remote, isolation=isolation)
            verdict = compare(wanted, got)
            if verdict.exact or (verdict.complete and repeats_allowed):
                return verdict
            if late or verdict.beyond_repair or (verdict.duplicated and not repeats_allowed):
                raise GaveUp(
                    f"{remote[1]} is not a copy of {source[1]} ({timeout:g} s allowed): {verdict}\n"
                    f"histories: {save_histories(source[1], wanted, got)}"
                )
        time.sleep(PAUSE)


def _example(one: Record | tuple[Record, Record]) -> str:
    return f"{one[0]} became {one[1]}" if isinstance(one, tuple) else str(one)
