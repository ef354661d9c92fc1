"""Separate flows for single tests, at the cost of a few topics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.checkpoints.flow import CheckpointFlow
from tests.lab.cluster import KafkaCluster

NewFlow = Callable[..., CheckpointFlow]


@pytest.fixture
def new_flow(cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path: Path) -> NewFlow:
    """Create flows between the shared clusters; ``lines`` are added to a flow's file."""

    def new(lines: str = "", **options: Any) -> CheckpointFlow:
        return CheckpointFlow(cluster_a, cluster_b, tmp_path, lines, **options)

    return new
