"""Quotas of a cluster, set with Kafka's own tool: the independent client cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab import jars, jvm
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run_within

TOOL = "kafka.admin.ConfigCommand"
WITHIN = 60.0  # seconds for a JVM to start and send the request, on busy cores


@contextmanager
def set_quota(cluster: KafkaCluster, name: str, bytes_per_second: int) -> Iterator[None]:
    """While the block runs, every client of the cluster is throttled beyond that rate."""
    _alter(cluster, "--add-config", f"{name}={bytes_per_second}")
    try:
        yield
    finally:
        _alter(cluster, "--delete-config", name)


def _alter(cluster: KafkaCluster, *change: str) -> None:
    java = (jvm.java(), *jvm.QUICK_START, *jvm.log_options("error"), "-cp", jars.class_path(cluster.version), TOOL)
    entity = ("--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "clients", "--entity-default")
    run_within(WITHIN, (*java, *entity, *change), capture_output=True).check_returncode()
