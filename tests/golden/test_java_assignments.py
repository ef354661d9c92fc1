"""From nothing, partitions come to the same tasks as Java's MirrorSourceConnector gives them (mm2-compat §3.6)."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.assignment import spread
from mm2.core.names import TopicPartition
from tests.golden.vectors import java_vectors


@pytest.mark.parametrize(
    "case", java_vectors("assignments"), ids=lambda case: f"{case['topics']} over {case['tasks_max']}"
)
def test_the_same_tasks(case: dict[str, Any]) -> None:
    partitions = [TopicPartition(topic, number) for topic, count in case["topics"].items() for number in range(count)]
    slots = spread(partitions, tasks_max=case["tasks_max"])
    assert [",".join(f"{one.topic}-{one.partition}" for one in slot) for slot in slots] == case["tasks"]
