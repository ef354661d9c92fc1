from __future__ import annotations

import pytest

from mm2.core.offsets.start_offset import StoredLag, stored_lag
from mm2.core.settings.client import OffsetReset

EARLIEST, LATEST = OffsetReset.EARLIEST, OffsetReset.LATEST
DELETED = "offset 4 was deleted on the source before it was copied: the partition now starts at 10"
BEYOND = "offset 120 is beyond the source's end offset 100: the topic was truncated or recreated"


def of(
    stored: int | None,
    *,
    end: int = 100,
    policy: OffsetReset = EARLIEST,
    start: OffsetReset | int | None = None,
) -> StoredLag:
    return stored_lag(stored, earliest=10, latest=100, end=end, policy=policy, start=start)


@pytest.mark.parametrize(("stored", "lag"), [(10, 90), (60, 40), (100, 0)])
def test_a_stored_offset_that_the_source_has(stored: int, lag: int) -> None:
    assert of(stored) == StoredLag(position=stored, lag_records=lag)


def test_the_last_stable_offset_ends_the_lag() -> None:
    assert of(60, end=90).lag_records == 30
    assert of(95, end=90) == StoredLag(position=95, lag_records=0)


@pytest.mark.parametrize(
    ("policy", "start", "position"),
    [(EARLIEST, None, 10), (LATEST, None, 100), (EARLIEST, LATEST, 100), (LATEST, 42, 42), (EARLIEST, -1, 100)],
)
def test_no_offset_is_stored(policy: OffsetReset, start: OffsetReset | int | None, position: int) -> None:
    remark = f"no offset is stored yet: starts at {position}"
    expected = StoredLag(position=position, lag_records=100 - position, remark=remark)
    assert of(None, policy=policy, start=start) == expected


def test_no_offset_may_be_chosen() -> None:
    assert of(None, policy=OffsetReset.NONE) == StoredLag(
        position=None, lag_records=None, remark="no offset is stored and auto.offset.reset is none"
    )
    lost = of(4, policy=OffsetReset.NONE)
    assert (lost.position, lost.lag_records) == (4, None)
    assert lost.remark == f"{DELETED}; auto.offset.reset is none"


def test_deleted_records_are_not_part_of_the_lag() -> None:
    assert of(4) == StoredLag(position=10, lag_records=90, remark=DELETED)
    assert of(4, policy=LATEST) == StoredLag(position=100, lag_records=0, remark=DELETED)


def test_an_offset_beyond_the_end() -> None:
    assert of(120) == StoredLag(position=10, lag_records=90, remark=BEYOND)
