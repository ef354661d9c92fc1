"""GET /metrics: a node's published state as Prometheus metrics, by the names of contract.md (docs/metrics.md).

The collector reads one `NodeStatus` and keeps nothing, so the numbers of a scrape fit together and a series ends with
its partition. Totals are monotone because the node's are. A number not known yet (-1) has no series: -1 would spoil
every sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from mm2.core.lease import TaskState
from mm2.node.published import FileStatus, FlowStatus, NodeStatus
from mm2.rest.own_share import own_share

FLOW = ("source", "target")
PARTITION = (*FLOW, "topic", "partition")


class NodeCollector(Collector):
    """Turns what ``status`` returns into metrics, anew for each scrape. Made for a registry of its own."""

    def __init__(self, status: Callable[[], NodeStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        flows = own_share(status)
        yield from _partition_families(flows)
        yield from _flow_families(flows)
        yield from _state_families(flows)
        info = GaugeMetricFamily(
            "mm2_node_info", "Always 1; says which node and version this is.", labels=("node", "version")
        )
        info.add_metric((status.node_id, status.version), 1)
        yield info
        yield GaugeMetricFamily(
            "mm2_node_start_time_seconds", "When the node started, seconds since 1970.", value=status.started_at
        )
        yield from _file_families(status.file)

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read a state that is not there yet."""
        return ()


def _file_families(file: FileStatus) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "mm2_config_last_reload_successful",
        "1 while the node's file is in force, 0 while a broken one stands there.",
        value=0 if file.problems else 1,
    )
    yield GaugeMetricFamily(
        "mm2_config_last_reload_seconds",
        "When the file was found good last, seconds since 1970.",
        value=file.loaded_at,
    )


def _partition_families(flows: Iterable[FlowStatus]) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "mm2_source_records", "Records the target has acknowledged, since the node started.", labels=PARTITION
    )
    size = CounterMetricFamily(
        "mm2_source_bytes",
        "Bytes of the acknowledged batches as stored (compressed, with keys and headers), since the node started.",
        labels=PARTITION,
    )
    age = SummaryMetricFamily(
        "mm2_source_record_age_seconds",
        "Seconds from the largest timestamp of a batch to its fetch; one observation a batch.",
        labels=PARTITION,
    )
    latency = SummaryMetricFamily(
        "mm2_source_replication_latency_seconds",
        "Seconds from the largest timestamp of a batch to its acknowledgement by the target; one observation a batch.",
        labels=PARTITION,
    )
    lag = GaugeMetricFamily(
        "mm2_source_lag_records",
        "Source offsets still to copy: high watermark (read_committed: last stable offset) minus position.",
        labels=PARTITION,
    )
    lag_seconds = GaugeMetricFamily(
        "mm2_source_lag_seconds",
        "Seconds since the next record to copy was written at the source; 0 when caught up.",
        labels=PARTITION,
    )
    for flow in flows:
        for topic in flow.topics:
            for partition in topic.partitions:
                labels = (flow.flow.source, flow.flow.target, topic.remote_topic, str(partition.partition))
                records.add_metric(labels, partition.records_total)
                size.add_metric(labels, partition.bytes_total)
                age.add_metric(labels, partition.age_count, partition.age_sum)
                latency.add_metric(labels, partition.latency_count, partition.latency_sum)
                if partition.lag_known:
                    lag.add_metric(labels, partition.lag_records)
                    lag_seconds.add_metric(labels, partition.lag_seconds)
    return iter((records, size, age, latency, lag, lag_seconds))


def _flow_families(flows: Iterable[FlowStatus]) -> Iterator[Metric]:
    batches = CounterMetricFamily(
        "mm2_source_batches",
        "Batches sent by path: pass-through, or rebatch with its reason; since the node started.",
        labels=(*FLOW, "path", "reason"),
    )
    lost = CounterMetricFamily(
        "mm2_source_lost_records",
        "Source offsets gone before they could be copied (retention, topic made anew), since the node started.",
        labels=PARTITION,
    )
    heartbeats = CounterMetricFamily(
        "mm2_heartbeats", "Heartbeats this node wrote to the target, since it started.", labels=FLOW
    )
    states = GaugeMetricFamily(
        "mm2_task_state",
        "1 for the state a task is in, 0 for the others.",
        labels=(*FLOW, "task", "kind", "node", "state"),
    )
    checkpoints = SummaryMetricFamily(
        "mm2_checkpoint_latency_seconds",
        "Seconds from reading a group's offset on the source to the acknowledgement of its checkpoint by the target;"
        " one observation a checkpoint.",
        labels=(*FLOW, "group"),
    )
    skipped = CounterMetricFamily(
        "mm2_internal_records_skipped",
        "Records of internal topics that could not be read (garbage, versions of a later release), since the node"
        " started.",
        labels=(*FLOW, "topic"),
    )
    nodes = GaugeMetricFamily("mm2_flow_nodes", "Nodes that share the flow, as this node knows them.", labels=FLOW)
    coverage = GaugeMetricFamily(
        "mm2_flow_coverage",
        "Tasks and partitions by how they are run: covered once, moving from node to node, uncovered, doubled, or stray"
        " (run though they should not be). By the leader, nobody else has series of it.",
        labels=(*FLOW, "what", "state"),
    )
    leader = GaugeMetricFamily("mm2_node_is_leader", "1 while this node leads the flow, else 0.", labels=FLOW)
    for flow in flows:
        name = (flow.flow.source, flow.flow.target)
        for batch in flow.batches:
            batches.add_metric((*name, batch.path, batch.reason), batch.batches)
        for (remote_topic, partition), count in _lost(flow).items():
            lost.add_metric((*name, remote_topic, str(partition)), count)
        heartbeats.add_metric(name, flow.heartbeats_total)
        leader.add_metric(name, flow.is_leader)
        nodes.add_metric(name, len(flow.members))
        for what, counts in flow.coverage.items():
            for one in fields(counts):
                coverage.add_metric((*name, what, one.name), getattr(counts, one.name))
        for group, latency in flow.checkpoint_latency.items():
            checkpoints.add_metric((*name, group), latency.count, latency.seconds)
        for topic, count in flow.skipped.items():
            skipped.add_metric((*name, topic), count)
        for task in flow.tasks:
            for state in TaskState:
                states.add_metric((*name, task.id, task.kind, task.node, state), task.state is state)
    return iter((batches, lost, heartbeats, states, leader, nodes, coverage, checkpoints, skipped))


def _state_families(flows: Iterable[FlowStatus]) -> Iterator[Metric]:
    """States as this node sees them. Every state has a series, so that an alert may compare with 0."""
    of_flow = GaugeMetricFamily(
        "mm2_flow_state",
        "1 for the state the flow is in on this node, 0 for the others; enabled=false: heartbeats only.",
        labels=(*FLOW, "enabled", "state"),
    )
    of_topics = GaugeMetricFamily(
        "mm2_flow_topics", "Topics in this state, of those this node replicates.", labels=(*FLOW, "state")
    )
    of_partitions = GaugeMetricFamily(
        "mm2_flow_partitions",
        "Source partitions in this state, of those this node copies; those that nobody copies are the leader's.",
        labels=(*FLOW, "state"),
    )
    for flow in flows:
        name = (flow.flow.source, flow.flow.target)
        topics = Counter(topic.state for topic in flow.topics)
        partitions = Counter(partition.state for topic in flow.topics for partition in topic.partitions)
        for state in TaskState:
            of_flow.add_metric((*name, str(flow.enabled).lower(), state), flow.state is state)
            of_topics.add_metric((*name, state), topics[state])
            of_partitions.add_metric((*name, state), partitions[state])
    return iter((of_flow, of_topics, of_partitions))


def _lost(flow: FlowStatus) -> dict[tuple[str, int], int]:
    """Lost offsets by remote topic and partition; a topic that is gone keeps its source name."""
    remote = {topic.topic: topic.remote_topic for topic in flow.topics}
    counts: dict[tuple[str, int], int] = {}
    for loss in flow.losses:
        key = (remote.get(loss.topic, loss.topic), loss.partition)
        counts[key] = counts.get(key, 0) + loss.until - loss.first
    return counts
