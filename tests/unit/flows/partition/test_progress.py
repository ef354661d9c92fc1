"""The progress reported for a partition, and when it counts as changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flows.partition.replicator import PartitionReplicator
from mm2.core.settings.client import OffsetReset
from tests.unit.flows.replicators import partition


def caught_up() -> PartitionReplicator:
    replicator, _ = partition(None)
    replicator.reset_offset(OffsetReset.EARLIEST, 40, 40, 0.0)
    replicator.end_offset = 40
    return replicator


CHANGES: dict[str, Callable[[PartitionReplicator], None]] = {
    "a fetch that did not work": lambda replicator: replicator.fetch_delayed("no answer", 0.0),
    "one that cannot work": lambda replicator: replicator.fetch_failed("not authorized", 0.0),
    "a failure in other words": lambda replicator: replicator.reset_offset(OffsetReset.NONE, 50, 50, 0.0),
    "leaving": lambda replicator: replicator.drain(0.0),
    "its offset is stored": lambda replicator: replicator.committed(39),
    "nothing left to replicator": lambda replicator: replicator.reset_offset(OffsetReset.EARLIEST, 50, 50, 0.0),
    "an end that is not known any more": lambda replicator: setattr(replicator, "end_offset", -1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_reported(change: Callable[[PartitionReplicator], None]) -> None:
    replicator = caught_up()
    told, report = replicator.progress_key(0.0), replicator.progress(0.0, 0.0)
    assert replicator.progress_key(0.0) == told
    change(replicator)
    assert replicator.progress(0.0, 0.0) != report
    assert replicator.progress_key(0.0) != told


def test_a_lag_is_reported_each_time() -> None:
    """A lag in seconds grows with time."""
    replicator = caught_up()
    replicator.end_offset = 41
    assert replicator.progress_key(0.0) is None
    assert replicator.progress(1.0, 0.0) != replicator.progress(2.0, 0.0)
