"""Records are copied unchanged: partition, order, key, value, headers, timestamp."""

from __future__ import annotations

import random

import pytest

from tests.integration.shared_node import SEEN, SharedNode
from tests.lab.decisions import newest_lists
from tests.lab.records import every_shape, write
from tests.lab.waiting import wait_until

KEPT = {"retention.ms": "-1"}  # otherwise brokers would delete the old records
NOW_MS = 1_700_000_000_000  # timestamps in the past: late records keep their timestamp


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_topic_is_copied_unchanged(shared: SharedNode, rng: random.Random, codec: str) -> None:
    flow = shared.plain
    topic = flow.create("orders", 3, config=KEPT)
    write(flow.source.bootstrap, topic, every_shape(rng, 600, partitions=3, now_ms=NOW_MS), codec=codec)
    assert flow.wait_copied(topic).exact

    write(flow.source.bootstrap, topic, every_shape(rng, 600, partitions=3), codec=codec)
    verdict = flow.wait_copied(topic)
    assert verdict.records == 1200
    assert verdict.exact


def test_positions_lag_and_counters_are_updated(shared: SharedNode, rng: random.Random) -> None:
    flow = shared.plain
    topic = flow.create("counted", 2)
    written = every_shape(rng, 300, partitions=2)
    write(flow.source.bootstrap, topic, written, codec="lz4")
    flow.wait_copied(topic)

    def caught_up() -> bool:
        partitions = flow.status(topic).get("partitions", [])
        return [one["position"] for one in partitions] == [
            sum(record.partition == number for record in written) for number in (0, 1)
        ] and all(one["lag_records"] == 0 and one["end_offset"] == one["position"] for one in partitions)

    wait_until(caught_up, 15, f"/flows shows {topic} caught up")
    labels = {"source": flow.source_alias, "target": flow.target_alias, "topic": flow.remote(topic)}
    wait_until(lambda: shared.node.metric("mm2_source_records_total", **labels) >= 300, 15, "/metrics shows them too")
    assert shared.node.metric("mm2_source_records_total", **labels) == 300
    assert shared.node.metric("mm2_source_bytes_total", **labels) > 0
    assert shared.node.metric("mm2_source_lag_records", **labels) == 0


def test_partitions_are_distributed_over_the_tasks(shared: SharedNode, rng: random.Random) -> None:
    flow = shared.plain
    topic = flow.create("wide", 12)
    write(flow.source.bootstrap, topic, every_shape(rng, 1200, partitions=12), codec="zstd")
    assert flow.wait_copied(topic).exact
    tasks = [task for task in shared.node.flow(flow.name)["tasks"] if task["kind"] == "source"]
    assert [task["id"] for task in tasks] == ["MirrorSourceConnector-0", "MirrorSourceConnector-1"]

    def complete() -> list[set[int]]:
        """Return both lists, unless a partition is in neither: it moves, because of the load of earlier topics."""
        lists = newest_lists(flow.target, f"mm2-configs.{flow.source_alias}.internal")
        both = [set(lists[number].get(topic, ())) for number in (0, 1)]
        return both if set.union(*both) == set(range(12)) else []

    first, second = wait_until(complete, SEEN, "all partitions are assigned")
    assert not first & second
    assert min(len(first), len(second)) >= 4, "about half each; other topics of the flow add load too"
