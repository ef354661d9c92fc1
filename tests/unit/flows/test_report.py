"""What a report says of a partition, and when it says something new."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flows.copy import PartitionCopy
from flows.report import progress_of, telling
from flows.starts import CannotStart, GoOn
from tests.unit.flows.copies import partition

CAUGHT_UP = GoOn(offset=40, earliest=40)


def caught_up() -> PartitionCopy:
    copy, _ = partition(None)
    copy.start_at(CAUGHT_UP, 0.0)
    copy.headway.end_offset = 40
    return copy


CHANGES: dict[str, Callable[[PartitionCopy], None]] = {
    "a fetch that did not work": lambda copy: copy.fetch_troubled("no answer", 0.0),
    "one that cannot work": lambda copy: copy.fetch_failed("not authorized", 0.0),
    "a failure in other words": lambda copy: copy.start_at(CannotStart(reason="no policy"), 0.0),
    "leaving": PartitionCopy.drain,
    "its offset is stored": lambda copy: setattr(copy.headway, "stored", 40),
    "nothing left to copy": lambda copy: copy.start_at(GoOn(offset=50, earliest=50), 0.0),
    "an end that is not known any more": lambda copy: setattr(copy.headway, "end_offset", -1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_is_told(change: Callable[[PartitionCopy], None]) -> None:
    copy = caught_up()
    told, report = telling(copy), progress_of(copy, 0.0, 0.0)
    assert telling(copy) == told
    change(copy)
    assert progress_of(copy, 0.0, 0.0) != report
    assert telling(copy) != told


def test_a_lag_is_told_each_time() -> None:
    """It grows older."""
    copy = caught_up()
    copy.headway.end_offset = 41
    assert telling(copy) is None
    assert progress_of(copy, 1.0, 0.0) != progress_of(copy, 2.0, 0.0)
