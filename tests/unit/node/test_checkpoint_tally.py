from __future__ import annotations

from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.published import Latency


def test_latencies_add_up_by_group() -> None:
    tally = CheckpointTally()
    tally.acknowledged("g", 0.25)
    before = tally.latency_by_group
    tally.acknowledged("g", 0.5)
    tally.acknowledged("h", -1.0)  # clocks differ
    assert tally.latency_by_group == {"g": Latency(count=2, seconds=0.75), "h": Latency(count=1, seconds=0.0)}
    assert before == {"g": Latency(count=1, seconds=0.25)}, "what was handed out does not change"


def test_groups_that_are_gone_have_no_latency() -> None:
    tally = CheckpointTally()
    for group in ("g", "h"):
        tally.acknowledged(group, 0.25)
    tally.keep({"h", "i"})
    assert tally.latency_by_group == {"h": Latency(count=1, seconds=0.25)}
    tally.acknowledged("g", 0.5)
    assert tally.latency_by_group["g"] == Latency(count=1, seconds=0.5), "made anew, it begins at 0"


def test_skipped_records_add_up_over_tasks_that_count_from_0() -> None:
    tally = CheckpointTally()
    first, second = tally.begin(), tally.begin()
    tally.skipped(first, {"t": 0})
    assert tally.skipped_by_topic == {"t": 0}
    tally.skipped(first, {"t": 3})
    tally.skipped(first, {"t": 5})
    tally.skipped(second, {"t": 5, "u": 1})
    tally.skipped(second, {"t": 6, "u": 1})
    assert tally.skipped_by_topic == {"t": 11, "u": 1}
