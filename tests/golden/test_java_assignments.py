"""The first assignment of partitions to tasks equals that of Java's MirrorSourceConnector."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.assignment.partition_assignment import spread
from mm2.core.naming.names import TopicPartition
from tests.golden.vectors import java_vectors


@pytest.mark.parametrize(
    "case", java_vectors("assignments"), ids=lambda case: f"{case['topics']} over {case['tasks_max']}"
)
def test_same_tasks_as_java(case: dict[str, Any]) -> None:
    partitions = [TopicPartition(topic, number) for topic, count in case["topics"].items() for number in range(count)]
    source_tasks = spread(partitions, tasks_max=case["tasks_max"])
    assert [",".join(f"{one.topic}-{one.partition}" for one in source_task) for source_task in source_tasks] == case[
        "tasks"
    ]
