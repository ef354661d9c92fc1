from __future__ import annotations

import pytest

from mm2.core.observation.retention import (
    MOVEMENT_S,
    NO_MARGIN,
    LogStart,
    RetentionMargin,
    TopicRetention,
    is_at_risk,
    retention_margin,
)

NOW = 1_000_000.0
HOUR_MS = 3_600_000
BY_TIME = TopicRetention(ms=HOUR_MS)


@pytest.mark.parametrize(
    ("policy", "ms", "size", "expected"),
    [
        ("delete", "604800000", "-1", TopicRetention(ms=604_800_000)),
        ("compact, delete", "1000", "5000", TopicRetention(ms=1_000, bytes=5_000)),
        ("compact", "604800000", "5000", TopicRetention()),
        ("delete", "-1", "-1", TopicRetention()),
        (None, "1", "1", None),
        ("delete", None, "1", None),
        ("delete", "1", None, None),
        ("delete", "a week", "1", None),
    ],
)
def test_retention_of_a_topic(policy: str, ms: str, size: str, expected: TopicRetention | None) -> None:
    configs = {"cleanup.policy": policy, "retention.ms": ms, "retention.bytes": size}
    assert TopicRetention.of(configs) == expected
    assert TopicRetention.of({}) is None


def margin(
    position: int = 150,
    *,
    start: LogStart | None = None,
    retention: TopicRetention | None = BY_TIME,
    age_s: float | None = 600.0,
) -> RetentionMargin:
    written = None if age_s is None else round((NOW - age_s) * 1_000)
    return retention_margin(position, start or LogStart(offset=100), retention, written_ms=written, now=NOW)


def test_margin_by_time() -> None:
    assert margin() == RetentionMargin(records=50, seconds=3_000.0)
    assert margin(age_s=7_200.0) == RetentionMargin(records=50, seconds=0.0), "overdue: the segment is still in use"
    assert margin(90) == RetentionMargin(records=0, seconds=3_000.0), "deleted already"


def test_margin_that_is_unknown_or_unlimited() -> None:
    assert margin(retention=None) == RetentionMargin(records=50)
    assert margin(age_s=None) == RetentionMargin(records=50)
    assert margin(retention=TopicRetention()) == NO_MARGIN


def test_margin_by_size_is_estimated_while_the_log_start_moves() -> None:
    by_size = TopicRetention(bytes=1_000)
    once = LogStart(offset=0).seen(40, NOW - 1_000)
    assert margin(start=once, retention=by_size) == RetentionMargin(records=110), "how fast it filled is not known"
    twice = once.seen(40, NOW - 700).seen(100, NOW - 500)
    assert twice.offsets_per_second(NOW) == 0.06  # 60 offsets within the 1,000 s since the first movement
    assert margin(start=twice, retention=by_size) == RetentionMargin(records=50, seconds=50 / 0.06)
    both = TopicRetention(ms=HOUR_MS, bytes=1_000)
    assert margin(start=twice, retention=both).seconds == 50 / 0.06
    assert margin(start=once, retention=both).seconds == 3_000.0, "by size, nothing was deleted lately"
    assert margin(start=twice).seconds == 3_000.0, "there is no limit of the size"


def test_movements_are_forgotten() -> None:
    moved = LogStart(offset=0).seen(10, 0.0).seen(20, 60.0)
    assert moved.offsets_per_second(0.0) is None
    assert moved.offsets_per_second(100.0) == 0.1
    assert moved.seen(20, MOVEMENT_S + 30.0).moves == ((60.0, 20),)
    assert moved.seen(30, 2 * MOVEMENT_S).offsets_per_second(2 * MOVEMENT_S) is None
    assert moved.seen(5, 70.0) == LogStart(offset=5), "the topic was recreated"


@pytest.mark.parametrize(
    ("margin_s", "lag_s", "expected"),
    [
        (3_000.0, 3_001.0, True),
        (3_500.0, 100.0, False),  # a topic that keeps records for an hour, and is copied
        (86_400.0, 500_000.0, False),
        (86_399.0, 500_000.0, True),
        (None, 500_000.0, False),
        (10.0, None, False),
    ],
)
def test_risk(margin_s: float | None, lag_s: float | None, expected: bool) -> None:
    assert is_at_risk(margin_s, lag_s) is expected
