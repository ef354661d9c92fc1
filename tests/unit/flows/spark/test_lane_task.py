from __future__ import annotations

import pickle

import pytest
from pyspark import TaskContext

from flows.spark.lane_task import LaneTask
from flows.spark.workers import RetriedError, is_orphan, reject_retry
from mm2.core.lanes.lease import LeaseEndpoint


def test_orphans() -> None:
    assert is_orphan(parent=1, group=4711), "the daemon that forked us led our process group"
    assert not is_orphan(parent=4711, group=4711)
    assert not is_orphan(parent=1, group=1), "an executor that is its container's first process has forked us"


def test_the_lane_task_does_not_show_its_token() -> None:
    task = LaneTask(lane=1, place=LeaseEndpoint(url="https://node-1:8443", ca_pem="PEM"), token="open-sesame")
    assert pickle.loads(pickle.dumps(task)) == task
    assert "sesame" not in repr(task)


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """Run the test in a task of Spark."""
    monkeypatch.setattr(TaskContext, "_taskContext", None)  # restored afterwards
    context = TaskContext()  # which sets it
    context._attemptNumber = request.param
    return int(request.param)


@pytest.mark.parametrize("attempt", [1, 2], indirect=True)
@pytest.mark.usefixtures("attempt")
def test_a_retry_by_spark_ends_at_once() -> None:
    """Before it asks for a lease: its token was used, or another executor uses it."""
    task = LaneTask(lane=3, place=LeaseEndpoint(url="http://127.0.0.1:1"), token="t")
    with pytest.raises(RetriedError, match="lane 3: Spark lost its executor"):
        task([])


@pytest.mark.parametrize("attempt", [0], indirect=True)
@pytest.mark.usefixtures("attempt")
def test_a_first_attempt_is_no_retry() -> None:
    reject_retry(3)
