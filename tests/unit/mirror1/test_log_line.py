"""What the log line of a stream says is left to copy."""

from __future__ import annotations

import pytest

from mm2.core.lanes.progress_reports import PartitionProgress
from mm2.core.lanes.task_states import TaskState
from mm2.mirror1.process import to_copy

HEARD_AT = 1_763_740_800.0


def at(position: int, end_offset: int, observed: float | None = None) -> PartitionProgress:
    return PartitionProgress(
        topic="t",
        partition=0,
        remote_topic="t",
        state=TaskState.RUNNING,
        position=position,
        end_offset=end_offset,
        end_observed=observed,
    )


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([], "0"),
        ([at(5, 5), at(1, 8)], "7"),
        ([at(5, 5), at(1, 8, HEARD_AT)], "an unknown number"),
        ([at(5, 6), at(1, 8, HEARD_AT), at(-1, -1)], "at least 1"),
    ],
)
def test_what_the_source_has_not_told_lately_is_unknown(partitions: list[PartitionProgress], text: str) -> None:
    assert to_copy(partitions) == text
