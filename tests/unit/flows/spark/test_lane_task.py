from __future__ import annotations

import pickle

from flows.spark.lane_task import LaneTask
from flows.spark.workers import is_orphan
from mm2.core.lanes.lease import LeasePlace


def test_orphans() -> None:
    assert is_orphan(parent=1, group=4711), "the daemon that forked us led our process group"
    assert not is_orphan(parent=4711, group=4711)
    assert not is_orphan(parent=1, group=1), "an executor that is its container's first process has forked us"


def test_the_lane_task_does_not_show_its_token() -> None:
    task = LaneTask(lane=1, place=LeasePlace(url="https://node-1:8443", ca_pem="PEM"), token="open-sesame")
    assert pickle.loads(pickle.dumps(task)) == task
    assert "sesame" not in repr(task)
