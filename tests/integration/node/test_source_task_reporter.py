"""Reports about source tasks in the status topic: written once, and again after another node ran the task."""

from __future__ import annotations

from collections.abc import Callable

from mm2.config.load import load
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.source_task_reports import decode_report
from mm2.core.naming.names import TopicPartition
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.source.source_task_reporter import SourceTaskReporter
from tests.integration.kafka.clients import connected
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic

SOON = 60.0  # seconds


async def test_task_that_returns_to_a_node_is_reported_again(
    cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """Even with the same partitions and member: another node reported in between, and the newest report counts."""
    alias = unique("A")
    topic = cluster_b.create_topic(f"mm2-status.{alias}.internal", 1)
    file = scratch.directory("reports") / "mm2.properties"
    file.write_text(
        f"clusters={alias},B\n{alias}->B.enabled=true\n"
        f"{alias}.bootstrap.servers={cluster_b.bootstrap}\nB.bootstrap.servers={cluster_b.bootstrap}\n"
    )
    settings = load(file).settings
    assert settings is not None
    flow = next(one for one in settings.flows if one.flow.source == alias)
    record = SourceTaskRecord(source_task=2, epoch=3, version=1, partitions=frozenset({TopicPartition("orders", 0)}))
    async with connected(cluster_b) as cluster, ControlProducer(cluster) as producer:
        here, there = (SourceTaskReporter(flow, producer, 1, name) for name in ("here", "there"))
        for now in (0.0, 1.0):
            here.report(record, "m-here", now)
        here.forget(2)
        there.report(record, "m-there", 2.0)
        here.report(record, "m-here", 3.0)
        assert await producer.flush(SOON)
    (written,) = read_topic(cluster_b.bootstrap, topic).values()
    reports = [decode_report(one.content[0], one.content[1]) for one in written]
    assert [report.node for report in reports] == ["here", "there", "here"]
