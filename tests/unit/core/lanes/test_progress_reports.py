from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lanes.progress_reports import PartitionProgress
from mm2.core.lanes.task_states import TaskState

COPYING = PartitionProgress(
    topic="orders", partition=0, remote_topic="A.orders", state=TaskState.RUNNING, position=90, end_offset=100
)


def test_lag() -> None:
    assert COPYING.lag_records == 10


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(replace(COPYING, position=-1), id="no position"),
        pytest.param(replace(COPYING, end_offset=-1), id="no end offset"),
        pytest.param(replace(COPYING, end_observed=1_790_000_000.0), id="an old end offset"),
    ],
)
def test_unknown_lag(unknown: PartitionProgress) -> None:
    assert unknown.lag_records is None
