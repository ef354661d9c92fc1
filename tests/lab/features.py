"""Features of a cluster (KIP-584), such as metadata.version and transaction.version, with Kafka's own tool."""

from __future__ import annotations

import re

from tests.lab import jars, jvm
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run_within

TOOL = "org.apache.kafka.tools.FeatureCommand"
WITHIN = 60.0  # seconds for a JVM to start and send the request, on busy cores
FINALIZED = re.compile(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)")


def finalize(cluster: KafkaCluster, version: str) -> None:
    """Finalize the features of a release, 4.3.1 for example, after all brokers run it."""
    _run(cluster, version, "upgrade", "--release-version", version.rpartition(".")[0])
    cluster.version = version


def finalized(cluster: KafkaCluster) -> dict[str, str]:
    """Return the finalized level of each feature."""
    return dict(FINALIZED.findall(_run(cluster, jars.KAFKA_4, "describe")))


def _run(cluster: KafkaCluster, version: str, *command: str) -> str:
    java = (jvm.java(), *jvm.QUICK_START, *jvm.log_options("error"), "-cp", jars.class_path(version), TOOL)
    address = ("--bootstrap-server", cluster.bootstrap)
    outcome = run_within(WITHIN, (*java, *address, *command), capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return str(outcome.stdout)
