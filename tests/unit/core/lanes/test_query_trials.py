"""The record that ends a query is found with few deaths, and no other is accused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from mm2.core.lanes.query_trials import (
    DEATHS,
    EXPLAINED_FOR_S,
    NO_TRIAL,
    PARTS,
    SUSPECTED_FOR_S,
    FatalRecord,
    FrameSpan,
    QuerySuspects,
    QueryTrial,
    SuspectSpan,
)
from mm2.core.naming.names import TopicPartition

WHY = "Java ran out of memory (spark.driver.memory = 1g)"
RECORD, PLACE = FrameSpan(topic="t", partition=0, first=17, until=18), TopicPartition("t", 0)


def span(first: int, until: int, partition: int = 0) -> FrameSpan:
    return FrameSpan(topic="t", partition=partition, first=first, until=until)


class Copy:
    """Copies partitions through a query that dies with the records ``fatal``, in frames of ``size`` offsets.

    What it has copied is stored at once, except for the last ``repeated`` offsets.
    """

    def __init__(self, ends: Mapping[int, int], fatal: set[tuple[int, int]], size: int, repeated: int = 0) -> None:
        self.suspects = QuerySuspects()
        self.stopped: dict[int, int] = {}
        self.copied: dict[int, list[int]] = {one: [] for one in ends}
        self.deaths = 0
        self._ends = ends
        self._fatal = fatal
        self._size = size
        self._repeated = repeated
        self._stored = dict.fromkeys(ends, 0)
        self._now = 0.0

    def run(self) -> None:
        while self._lives():
            self.deaths += 1
            assert self.deaths < 1_000
            self._now += 30.0

    def _lives(self) -> bool:
        """Run one lane; return whether it has died."""
        trial = self.suspects.trial
        positions = dict(self._stored)
        while waiting := [one for one, at in positions.items() if one not in self.stopped and at < self._ends[one]]:
            for one in waiting:
                start = positions[one]
                until, is_fatal = self._end(trial, one, start)
                frame = span(start, until, one)
                if start < until:
                    if any(place == one and start <= at < until for place, at in self._fatal):
                        message = self.suspects.died(frame if trial.announced else None, WHY, self._now)
                        assert (message is None) is not trial.announced
                        return True
                    self.copied[one] += range(len(self.copied[one]), until)
                    positions[one] = until
                    self._stored[one] = max(0, until - self._repeated)
                    if trial.announced:
                        self.suspects.passed(frame)
                if is_fatal:
                    self.stopped[one] = until
        return False

    def _end(self, trial: QueryTrial, partition: int, start: int) -> tuple[int, bool]:
        end = min(start + self._size, self._ends[partition])
        fatal = [one.span.first for one in trial.fatal if one.span.partition == partition]
        first_fatal = min((at for at in fatal if start <= at < end), default=None)
        for one in trial.suspects:
            if one.span.partition == partition:
                end = min(end, one.end_of_part(start) or end)
        return (end, False) if first_fatal is None or end <= first_fatal else (first_fatal, True)


@pytest.mark.parametrize("repeated", [0, 40])
@pytest.mark.parametrize("size", [1, 2, 100, PARTS, 1_000, 20_000])
@pytest.mark.parametrize("fatal", [0, 1, 777, 1_999])
def test_one_record_is_found_and_the_others_are_copied(size: int, fatal: int, repeated: int) -> None:
    copy = Copy({0: 2_000, 1: 2_000}, {(0, fatal)}, size, repeated)
    copy.run()
    assert copy.stopped == {0: fatal}
    assert copy.copied == {0: [*range(fatal)], 1: [*range(2_000)]}
    frame = min(size, 2_000)
    assert copy.deaths <= DEATHS + 1 + max(1, math.ceil(math.log(frame, PARTS)))


def test_a_record_of_each_of_several_partitions() -> None:
    fatal = {(0, 3), (1, 900), (3, 0)}
    copy = Copy(dict.fromkeys(range(5), 1_000), fatal, size=250)
    copy.run()
    assert copy.stopped == dict(fatal)
    assert {one: len(records) for one, records in copy.copied.items()} == {0: 3, 1: 900, 2: 1_000, 3: 0, 4: 1_000}


def test_deaths_without_announced_frames_accuse_nothing() -> None:
    suspects = QuerySuspects()
    assert suspects.trial == NO_TRIAL
    for death in range(1, 5):
        assert suspects.died(None, WHY, 10.0 * death) is None
        assert suspects.trial == QueryTrial(announced=death >= DEATHS)
        assert suspects.reason == (f"{WHY}; looking for the record" if death >= DEATHS else None)


def test_deaths_that_are_far_apart_are_accidents() -> None:
    suspects = QuerySuspects()
    for death in range(5):
        suspects.died(None, WHY, (SUSPECTED_FOR_S + 1) * death)
    assert suspects.trial == NO_TRIAL


def test_a_single_record_is_fatal_only_when_it_dies_again() -> None:
    """The first time can be an accident, such as a process that an operator has killed."""
    suspects = QuerySuspects()
    for at in range(DEATHS):
        suspects.died(None, WHY, float(at))
    message = suspects.died(RECORD, WHY, 3.0)
    assert message == f"{WHY} with t-0 offset 17 in it"
    assert suspects.trial == QueryTrial(announced=True, suspects=(SuspectSpan(span=RECORD, step=1),))
    assert suspects.reason == f"{WHY}; looking for the record: it is in t-0 offset 17"
    message = suspects.died(RECORD, WHY, 4.0)
    assert message == f"{WHY} each time that t-0 offset 17 was in it; this record does not pass through it again"
    fatal = FatalRecord(span=RECORD, why=WHY)
    assert suspects.trial == QueryTrial(announced=True, fatal=(fatal,))
    suspects.explained(4.0)
    suspects.expire(4.0 + EXPLAINED_FOR_S)
    assert suspects.trial.announced, "others could have such a record, too"
    suspects.expire(4.1 + EXPLAINED_FOR_S)
    assert suspects.trial == QueryTrial(fatal=(fatal,))


def test_a_record_that_fails_and_ends_the_process_that_finds_out_why() -> None:
    suspects = QuerySuspects()
    asked = replace(RECORD, is_asked=True)
    suspects.died(RECORD, WHY, 1.0)
    suspects.passed(asked)
    assert suspects.trial.suspects, "only what returns from the query has passed"
    suspects.passed(RECORD)
    message = suspects.died(asked, WHY, 2.0)
    assert message is not None
    assert "this record does not pass through it again" in message
    assert suspects.trial.fatal == (FatalRecord(span=asked, why=WHY),)


def test_what_has_returned_is_not_suspected_any_more() -> None:
    suspects = QuerySuspects()
    for at in range(DEATHS):
        suspects.died(None, WHY, float(at))
    frame = span(0, 3 * PARTS)
    message = f"{WHY} with t-0 offsets 0-{3 * PARTS - 1} in it, which pass in parts now"
    assert suspects.died(frame, WHY, 2.0) == message
    suspects.passed(span(500, 600))
    suspects.passed(span(0, 1, partition=1))
    assert suspects.trial.suspects == (SuspectSpan(span=frame, step=3),)
    suspects.passed(span(0, 3))
    assert suspects.trial.suspects == (SuspectSpan(span=span(3, 3 * PARTS), step=3),)
    suspects.passed(span(3, 3 * PARTS))
    assert suspects.trial == QueryTrial(announced=True)


def test_another_frame_takes_the_place_of_a_suspected_one() -> None:
    suspects = QuerySuspects()
    suspects.died(span(0, 10), WHY, 0.0)
    suspects.died(span(10, 11), WHY, 1.0)
    assert suspects.trial.suspects == (SuspectSpan(span=span(10, 11), step=1),)


def test_suspicion_ends() -> None:
    suspects = QuerySuspects()
    for at in range(DEATHS):
        suspects.died(span(0, 10), WHY, float(at))
    suspects.expire(DEATHS - 1 + SUSPECTED_FOR_S)
    assert suspects.trial.announced
    suspects.expire(DEATHS + SUSPECTED_FOR_S)
    assert suspects.trial == NO_TRIAL


def test_an_operator_lets_a_record_pass_again() -> None:
    suspects = QuerySuspects()
    for at in range(2):
        suspects.died(RECORD, WHY, float(at))
    suspects.died(span(0, 5, partition=1), WHY, 2.0)
    suspects.forget([TopicPartition("t", 2)])
    assert suspects.trial.fatal
    suspects.forget([PLACE, TopicPartition("t", 1)])
    assert suspects.trial == QueryTrial(announced=True)


def test_where_a_frame_ends() -> None:
    suspect = SuspectSpan(span=span(10, 20), step=4)
    ends = {start: suspect.end_of_part(start) for start in (0, 9, 10, 14, 18, 19, 20, 25)}
    assert ends == {0: 10, 9: 10, 10: 14, 14: 18, 18: 20, 19: 20, 20: None, 25: None}
