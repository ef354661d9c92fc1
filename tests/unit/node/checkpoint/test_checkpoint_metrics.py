from __future__ import annotations

from mm2.node.checkpoint.checkpoint_log import CheckpointMetrics
from mm2.node.status.status_model import Latency


def test_latencies_add_up_by_group() -> None:
    checkpoint_metrics = CheckpointMetrics()
    checkpoint_metrics.acknowledged("g", 0.25)
    before = checkpoint_metrics.latency_by_group
    checkpoint_metrics.acknowledged("g", 0.5)
    checkpoint_metrics.acknowledged("h", -1.0)  # clocks differ
    assert checkpoint_metrics.latency_by_group == {
        "g": Latency(count=2, seconds=0.75),
        "h": Latency(count=1, seconds=0.0),
    }
    assert before == {"g": Latency(count=1, seconds=0.25)}, "what was handed out does not change"


def test_the_histogram_is_that_of_all_groups_also_deleted_ones() -> None:
    checkpoint_metrics = CheckpointMetrics()
    for group, seconds in (("g", 0.25), ("h", 2.0), ("h", -1.0)):
        checkpoint_metrics.acknowledged(group, seconds)
    checkpoint_metrics.keep({"h"})
    found = checkpoint_metrics.latencies
    assert (sum(found.counts), found.sum) == (3, 2.25)


def test_deleted_groups_have_no_latency() -> None:
    checkpoint_metrics = CheckpointMetrics()
    for group in ("g", "h"):
        checkpoint_metrics.acknowledged(group, 0.25)
    checkpoint_metrics.keep({"h", "i"})
    assert checkpoint_metrics.latency_by_group == {"h": Latency(count=1, seconds=0.25)}
    checkpoint_metrics.acknowledged("g", 0.5)
    assert checkpoint_metrics.latency_by_group["g"] == Latency(count=1, seconds=0.5), "recreated, it begins at 0"


def test_skipped_records_add_up_over_runs() -> None:
    checkpoint_metrics = CheckpointMetrics()
    first, second = checkpoint_metrics.begin(), checkpoint_metrics.begin()
    checkpoint_metrics.skipped(first, {"t": 0})
    assert checkpoint_metrics.skipped_by_topic == {"t": 0}
    checkpoint_metrics.skipped(first, {"t": 3})
    checkpoint_metrics.skipped(first, {"t": 5})
    checkpoint_metrics.skipped(second, {"t": 5, "u": 1})
    checkpoint_metrics.skipped(second, {"t": 6, "u": 1})
    assert checkpoint_metrics.skipped_by_topic == {"t": 11, "u": 1}
