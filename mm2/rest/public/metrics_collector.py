"""The state of a node as Prometheus metrics; docs/reference/metrics.md lists them.

The collector reads one `NodeStatus` and keeps no state, so the values of a scrape are consistent. Counters of a
partition are exposed for as long as the node runs and the flow has the partition, also after it moved to another node:
a sum over partitions or nodes does not decrease when partitions move. Gauges of a partition are exposed by the node
that copies it. An unknown value has no sample, as 0 or -1 would distort every sum.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from mm2.core.access.failed_logins import LoginFailure
from mm2.core.lanes.bottlenecks import Bottleneck
from mm2.core.lanes.counters import BUCKETS, HistogramTotals
from mm2.core.lanes.task_states import TaskState
from mm2.core.observation.unreplicated import unreplicated
from mm2.node.status.status_model import (
    ClusterStatus,
    FileStatus,
    FlowStatus,
    LaneBuffer,
    NodeStatus,
    PartitionStatus,
    TopicStatus,
)
from mm2.rest.merge.flow_merge import own_share

FLOW = ("source", "target")
TOPIC = (*FLOW, "topic")
PARTITION = (*TOPIC, "partition")

_Copied = tuple[tuple[str, str, str, str], TopicStatus, PartitionStatus]
"""The labels of a partition, and its status."""


class NodeCollector(Collector):
    """Collects metrics from the result of ``status`` at each scrape. Needs a registry of its own."""

    def __init__(self, status: Callable[[], NodeStatus], clock: Callable[[], float] = time.time) -> None:
        """``clock`` returns epoch seconds."""
        self._status = status
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        flows = own_share(status)
        copied = list(_copied(status.flows, flows))
        yield from _counter_families(copied)
        yield from _loss_families(status.flows)
        yield from _query_families(copied)
        yield from _lag_families(flows)
        yield from _observation_families(flows, self._clock())
        yield _map_family(status.flows)
        yield from _unreplicated_families(flows)
        yield from _flow_families(flows)
        yield from _limit_families(flows)
        yield from _state_families(flows)
        yield from _pace_families(flows)
        yield _paused_family(flows)
        yield _copied_again_family(flows)
        yield from _selection_families(status.flows)
        info = GaugeMetricFamily(
            "mm2_node_info", "Always 1; the labels are the node ID and the version.", labels=("node", "version")
        )
        info.add_metric((status.node_id, status.version), 1)
        yield info
        yield GaugeMetricFamily(
            "mm2_node_start_time_seconds", "When the node started, seconds since 1970.", value=status.started_at
        )
        yield from _file_families(status.file)
        yield from _buffer_families(status.lane_buffers)
        yield _reachable(status.clusters)
        yield from _credential_families(status)

    def describe(self) -> Iterable[Metric]:
        """Return no metrics: registration must not read a state that does not exist yet."""
        return ()


class FailedLoginCollector(Collector):
    """Collects the failed logins at the REST interface, of which ``counts`` returns all since the node started."""

    def __init__(self, counts: Callable[[], Mapping[LoginFailure, int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        failed = CounterMetricFamily(
            "mm2_rest_failed_logins",
            "REST requests that were rejected because of their token, since the node started.",
            labels=("reason",),
        )
        for why, count in self._counts().items():
            failed.add_metric((why,), count)
        yield failed

    def describe(self) -> Iterable[Metric]:
        """Return no metrics, as `NodeCollector`."""
        return ()


def _file_families(file: FileStatus) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "mm2_config_last_reload_successful",
        "1 if the node runs with its configuration file, 0 if the file has changed and is invalid.",
        value=0 if file.problems else 1,
    )
    yield GaugeMetricFamily(
        "mm2_config_last_reload_seconds",
        "When the configuration file was last loaded successfully, seconds since 1970.",
        value=file.loaded_at,
    )


def _buffer_families(buffers: Iterable[LaneBuffer]) -> Iterator[Metric]:
    used = GaugeMetricFamily(
        "mm2_lane_buffer_used_bytes",
        "Bytes that a lane has fetched and the target has not acknowledged yet.",
        labels=("lane",),
    )
    limit = GaugeMetricFamily(
        "mm2_lane_buffer_limit_bytes", "Maximum of mm2_lane_buffer_used_bytes: mm2.lane.buffer.bytes.", labels=("lane",)
    )
    for one in buffers:
        used.add_metric((str(one.lane),), one.used)
        limit.add_metric((str(one.lane),), one.limit)
    yield from (used, limit)


def _credential_families(status: NodeStatus) -> Iterator[Metric]:
    ends = GaugeMetricFamily(
        "mm2_certificate_expiry_seconds",
        "When a certificate ends, seconds since 1970: of its cluster and kind the one that ends first.",
        labels=("cluster", "kind"),
    )
    for one in status.certificates:
        ends.add_metric((one.cluster, one.kind), one.expires / 1_000)
    failing = GaugeMetricFamily(
        "mm2_credential_renewal_failing",
        "1 while the node cannot renew the token or ticket for the cluster, otherwise 0; no sample for other logins.",
        labels=("cluster",),
    )
    for cluster, failure in status.renewals.items():
        failing.add_metric((cluster,), failure is not None)
    yield from (ends, failing)


def _copied(flows: Iterable[FlowStatus], own: Iterable[FlowStatus]) -> Iterator[_Copied]:
    """Yield the node's own partitions (``own``), and those in ``flows`` that it has copied before."""
    for flow, mine in zip(flows, own, strict=True):
        present = {(topic.topic, one.partition) for topic in mine.topics for one in topic.partitions}
        for topic in (*flow.topics, *flow.elsewhere):
            for one in topic.partitions:
                if (topic.topic, one.partition) in present or one.counters.bytes or one.counters.rows_in:
                    yield (flow.source, flow.target, topic.remote_topic, str(one.partition)), topic, one


def _counter_families(copied: Iterable[_Copied]) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "mm2_source_records", "Records acknowledged by the target since the node started.", labels=PARTITION
    )
    size = CounterMetricFamily(
        "mm2_source_bytes",
        "Bytes of acknowledged batches as stored (compressed, with keys and headers) since the node started.",
        labels=PARTITION,
    )
    age = SummaryMetricFamily(
        "mm2_source_record_age_seconds",
        "Seconds from the largest timestamp of a batch to its fetch; one observation per batch.",
        labels=PARTITION,
    )
    latency = SummaryMetricFamily(
        "mm2_source_replication_latency_seconds",
        "Seconds from the largest timestamp of a batch until the target acknowledges it; one observation per batch.",
        labels=PARTITION,
    )
    dead_letters = CounterMetricFamily(
        "mm2_source_dead_letters",
        "Records, or batches that cannot be read, written to the dead-letter topic since the node started.",
        labels=PARTITION,
    )
    for labels, _, partition in copied:
        records.add_metric(labels, partition.counters.records)
        size.add_metric(labels, partition.counters.bytes)
        age.add_metric(labels, partition.counters.age_count, partition.counters.age_sum)
        latency.add_metric(labels, partition.counters.latency_count, partition.counters.latency_sum)
        dead_letters.add_metric(labels, partition.counters.dead_letters)
    return iter((records, size, age, latency, dead_letters))


def _query_families(copied: Iterable[_Copied]) -> Iterator[Metric]:
    rows_in = CounterMetricFamily(
        "mm2_source_query_rows_in", "Records that passed through a query since the node started.", labels=PARTITION
    )
    rows_out = CounterMetricFamily(
        "mm2_source_query_rows_out",
        "Records that a query did not drop, also if it failed for them, since the node started.",
        labels=PARTITION,
    )
    rows_dropped = CounterMetricFamily(
        "mm2_source_query_rows_dropped", "Records that a query dropped since the node started.", labels=PARTITION
    )
    for labels, topic, partition in copied:
        if topic.query is not None or partition.counters.rows_in:
            rows_in.add_metric(labels, partition.counters.rows_in)
            rows_out.add_metric(labels, partition.counters.rows_in - partition.counters.rows_dropped)
            rows_dropped.add_metric(labels, partition.counters.rows_dropped)
    return iter((rows_in, rows_out, rows_dropped))


def _loss_families(flows: Iterable[FlowStatus]) -> Iterator[Metric]:
    lost = CounterMetricFamily(
        "mm2_source_lost_records",
        "Source offsets deleted before they could be copied (retention, topic recreated), since the node started.",
        labels=PARTITION,
    )
    losses = CounterMetricFamily(
        "mm2_source_losses",
        "Losses of source records (retention, truncation, topic deleted or recreated, skipped) since the node started.",
        labels=PARTITION,
    )
    unaccepted = GaugeMetricFamily(
        "mm2_source_unaccepted_losses",
        "Recorded losses that no operator has accepted (mm2 accept-loss) or intended (mm2 skip, dead letters), by kind."
        " Every node exposes all of the flow, also while the target is down.",
        labels=(*PARTITION, "kind"),
    )
    for flow in flows:
        for family, counts in ((lost, flow.lost), (losses, flow.loss_counts)):
            for one, count in counts.items():
                family.add_metric((flow.source, flow.target, one.topic, str(one.partition)), count)
        for (one, kind), count in flow.unaccepted_losses.items():
            unaccepted.add_metric((flow.source, flow.target, one.topic, str(one.partition), kind), count)
    return iter((lost, losses, unaccepted))


def _lag_families(own: Iterable[FlowStatus]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "mm2_source_lag_records",
        "Source offsets still to copy: high watermark (read_committed: last stable offset) minus position;"
        " no sample while it is unknown.",
        labels=PARTITION,
    )
    lag_seconds = GaugeMetricFamily(
        "mm2_source_lag_seconds",
        "Seconds since the next record to copy was written at the source; 0 when caught up, no sample while it is"
        " unknown.",
        labels=PARTITION,
    )
    at_most = GaugeMetricFamily(
        "mm2_source_lag_records_at_most",
        "Upper bound of a lag that is unknown because another node can have copied since: the end offset minus the last"
        " certain position; no sample while the lag is known.",
        labels=PARTITION,
    )
    for flow in own:
        for topic in flow.topics:
            for partition in topic.partitions:
                labels = (flow.source, flow.target, topic.remote_topic, str(partition.partition))
                if partition.lag_records_at_most is not None:
                    at_most.add_metric(labels, partition.lag_records_at_most)
                if partition.lag_records is not None:
                    lag.add_metric(labels, partition.lag_records)
                if partition.lag_seconds is not None:
                    lag_seconds.add_metric(labels, partition.lag_seconds)
    return iter((lag, lag_seconds, at_most))


def _observation_families(own: Iterable[FlowStatus], now: float) -> Iterator[Metric]:
    age = GaugeMetricFamily(
        "mm2_source_end_offset_age_seconds",
        "Seconds since the source last told the end offset of the partition; 0 if that is less than 10 s, no sample if"
        " it has not told any since the node started.",
        labels=PARTITION,
    )
    records = GaugeMetricFamily(
        "mm2_source_retention_margin_records",
        "Source offsets from the log start to the first record that is not copied, the minimum over the topic's"
        " partitions of this node that are behind; no sample if none is, or if the source never deletes records.",
        labels=TOPIC,
    )
    seconds = GaugeMetricFamily(
        "mm2_source_retention_margin_seconds",
        "Seconds until the source deletes the first record that is not copied by its retention, the minimum as for"
        " mm2_source_retention_margin_records; no sample while it is unknown.",
        labels=TOPIC,
    )
    for flow in own:
        for topic in flow.topics:
            labels = (flow.source, flow.target, topic.remote_topic)
            for partition in topic.partitions:
                if partition.end_offset is not None:
                    age.add_metric((*labels, str(partition.partition)), 0.0)
                elif partition.observed is not None:
                    age.add_metric((*labels, str(partition.partition)), max(0.0, now - partition.observed / 1_000))
            if topic.retention_margin_records is not None:
                records.add_metric(labels, topic.retention_margin_records)
            if topic.retention_margin_seconds is not None:
                seconds.add_metric(labels, topic.retention_margin_seconds)
    return iter((age, records, seconds))


def _map_family(flows: Iterable[FlowStatus]) -> Metric:
    """Return the family of the leaders among this node's flows, which know it of all partitions."""
    exact = GaugeMetricFamily(
        "mm2_source_exact_from_offset",
        "Source offset from which on the exact offset map knows every position of the partition; only on the leader of"
        " the flow, no sample if it is unknown.",
        labels=PARTITION,
    )
    for flow in flows:
        for topic in flow.topics if flow.is_leader else ():
            for partition in topic.partitions:
                if partition.exact_from is not None:
                    labels = (flow.source, flow.target, topic.remote_topic, str(partition.partition))
                    exact.add_metric(labels, partition.exact_from)
    return exact


def _unreplicated_families(own: Iterable[FlowStatus]) -> Iterator[Metric]:
    """Yield the share of this node: a sum, or for seconds a maximum, over the nodes is that of the flow."""
    records = GaugeMetricFamily(
        "mm2_flow_unreplicated_records",
        "Source offsets that the target has not acknowledged, of the partitions of this node: their sum over nodes is"
        " lost if the source dies now. No sample while that of a partition is unknown.",
        labels=FLOW,
    )
    seconds = GaugeMetricFamily(
        "mm2_flow_unreplicated_seconds",
        "Age of the oldest record that the target has not acknowledged, of the partitions of this node; the flow's is"
        " the maximum over nodes. No sample while that of a partition is unknown.",
        labels=FLOW,
    )
    unknown = GaugeMetricFamily(
        "mm2_flow_unreplicated_unknown_partitions",
        "Partitions of this node of which it is unknown what the target has not acknowledged.",
        labels=FLOW,
    )
    for flow in own:
        found = unreplicated(one for topic in flow.topics for one in topic.partitions)
        if found is None:
            continue
        name = (flow.source, flow.target)
        unknown.add_metric(name, found.unknown_partitions)
        if found.is_complete:
            records.add_metric(name, found.records)
            if found.seconds is not None:
                seconds.add_metric(name, found.seconds)
    return iter((records, seconds, unknown))


def _reachable(clusters: Iterable[ClusterStatus]) -> Metric:
    reachable = GaugeMetricFamily(
        "mm2_cluster_reachable",
        "1 if the cluster answers this node, 0 if its last requests failed or were not answered for 12 s; no sample"
        " until one of both is known.",
        labels=("cluster",),
    )
    for one in clusters:
        if one.reachable is not None:
            reachable.add_metric((one.alias,), one.reachable)
    return reachable


def _flow_families(flows: Iterable[FlowStatus]) -> Iterator[Metric]:
    batches = CounterMetricFamily(
        "mm2_source_batches",
        "Batches sent since the node started, by path: pass-through, rebatch with its reason, or sql.",
        labels=(*FLOW, "path", "reason"),
    )
    heartbeats = CounterMetricFamily(
        "mm2_heartbeats", "Heartbeats that the node wrote to the target since it started.", labels=FLOW
    )
    states = GaugeMetricFamily(
        "mm2_task_state",
        "1 for the state of the task, 0 for all other states.",
        labels=(*FLOW, "task", "kind", "node", "state"),
    )
    checkpoints = SummaryMetricFamily(
        "mm2_checkpoint_latency_seconds",
        "Seconds from reading a group's offset on the source to the acknowledgement of its checkpoint by the target;"
        " one observation per checkpoint.",
        labels=(*FLOW, "group"),
    )
    skipped = CounterMetricFamily(
        "mm2_internal_records_skipped",
        "Records of internal topics skipped since the node started: malformed, or written by a later release.",
        labels=(*FLOW, "topic"),
    )
    nodes = GaugeMetricFamily(
        "mm2_flow_nodes",
        "Nodes that share the flow, as seen by this node; no sample while it is not a member.",
        labels=FLOW,
    )
    assignment_audit = GaugeMetricFamily(
        "mm2_flow_assignment",
        "Tasks and partitions by assignment: assigned once, moving between nodes, unassigned, duplicated, or unexpected"
        " (running although they should not). Exposed by the leader only.",
        labels=(*FLOW, "what", "state"),
    )
    leader = GaugeMetricFamily("mm2_node_is_leader", "1 if this node leads the flow, otherwise 0.", labels=FLOW)
    for flow in flows:
        name = (flow.source, flow.target)
        for batch in flow.batches:
            batches.add_metric((*name, batch.path, batch.reason), batch.batches)
        heartbeats.add_metric(name, flow.heartbeats_total)
        leader.add_metric(name, flow.is_leader)
        if flow.members:
            nodes.add_metric(name, len(flow.members))
        for what, counts in flow.assignment_audit.items():
            for one in fields(counts):
                assignment_audit.add_metric((*name, what, one.name), getattr(counts, one.name))
        for group, latency in flow.checkpoint_latency.items():
            checkpoints.add_metric((*name, group), latency.count, latency.seconds)
        for topic, count in flow.skipped.items():
            skipped.add_metric((*name, topic), count)
        for task in flow.tasks:
            for state in TaskState:
                states.add_metric((*name, task.id, task.kind, task.node, state), task.state is state)
    return iter((batches, heartbeats, states, leader, nodes, assignment_audit, checkpoints, skipped))


def _limit_families(flows: Iterable[FlowStatus]) -> Iterator[Metric]:
    limits = GaugeMetricFamily(
        "mm2_flow_max_bytes_per_second",
        "Limit of what the flow fetches from the source, over all nodes: mm2.max.bytes.per.second. No sample without.",
        labels=FLOW,
    )
    shares = GaugeMetricFamily(
        "mm2_flow_share_bytes_per_second",
        "The part of mm2_flow_max_bytes_per_second that source tasks of this node may fetch.",
        labels=FLOW,
    )
    for flow in flows:
        if flow.max_bytes_per_second is not None:
            limits.add_metric((flow.source, flow.target), flow.max_bytes_per_second)
            if flow.fetch_shares is not None:
                shares.add_metric((flow.source, flow.target), flow.fetch_shares)
    return iter((limits, shares))


def _paused_family(flows: Iterable[FlowStatus]) -> Metric:
    """Return the pauses as this node has read them from the target: every member of a flow exposes the same."""
    since = GaugeMetricFamily(
        "mm2_flow_paused_since_seconds",
        "When an operator paused the topic, by its name on the source, or the whole flow (topic is empty), seconds"
        " since 1970; no sample for what is not paused. Exposed by each node of the flow.",
        labels=(*FLOW, "topic"),
    )
    for flow in flows:
        for topic in flow.paused:
            if topic in flow.paused_since:
                since.add_metric((flow.source, flow.target, topic), flow.paused_since[topic] / 1_000)
    return since


def _copied_again_family(flows: Iterable[FlowStatus]) -> Metric:
    """Return what is copied again, as this node has read it: every member of a flow exposes the same."""
    found = GaugeMetricFamily(
        "mm2_flow_copying_again_partitions",
        "Partitions of the topic, by its name on the source, that an operator has copied again (mm2 copy-again) and"
        " that have not caught up; no sample for other topics, or while the node has not read that. Exposed by each"
        " node of the flow.",
        labels=(*FLOW, "topic"),
    )
    for flow in flows:
        for topic, count in Counter(one.topic for one in flow.copying_again).items():
            found.add_metric((flow.source, flow.target, topic), count)
    return found


def _selection_families(flows: Iterable[FlowStatus]) -> Iterator[Metric]:
    differs = GaugeMetricFamily(
        "mm2_flow_config_differs",
        "1 if this node's settings of the flow differ from the leader's, on the leader if those of any other node do,"
        " 0 if they are equal; no sample while that is unknown.",
        labels=FLOW,
    )
    left = GaugeMetricFamily(
        "mm2_flow_topics_left_selection",
        "Topics that the flow has replicated and that are not selected any more, although they exist on the source and"
        " topics.exclude does not name them. Exposed by the leader only; no sample while it is unknown.",
        labels=FLOW,
    )
    deleted = GaugeMetricFamily(
        "mm2_flow_deleted_topics",
        "Topics that the flow has replicated and that were deleted on the source, while their remote topics remain."
        " Exposed by the leader only; no sample while it is unknown.",
        labels=FLOW,
    )
    for flow in flows:
        if flow.config_differs is not None:
            differs.add_metric((flow.source, flow.target), flow.config_differs)
        if flow.left_selection is not None:
            left.add_metric((flow.source, flow.target), len(flow.left_selection))
        if flow.deleted_topics is not None:
            deleted.add_metric((flow.source, flow.target), len(flow.deleted_topics))
    return iter((differs, left, deleted))


def _state_families(flows: Iterable[FlowStatus]) -> Iterator[Metric]:
    """Yield states as seen by this node. Every state has a sample, so that alerts can compare with 0."""
    of_flow = GaugeMetricFamily(
        "mm2_flow_state",
        "1 for the state of the flow on this node, 0 for all other states; enabled=false: heartbeats only.",
        labels=(*FLOW, "enabled", "state"),
    )
    of_topics = GaugeMetricFamily(
        "mm2_flow_topics", "Topics that this node replicates, by state.", labels=(*FLOW, "state")
    )
    of_partitions = GaugeMetricFamily(
        "mm2_flow_partitions",
        "Source partitions that this node copies, by state; the leader also counts those that no node copies.",
        labels=(*FLOW, "state"),
    )
    for flow in flows:
        name = (flow.source, flow.target)
        topics = Counter(topic.state for topic in flow.topics)
        partitions = Counter(partition.state for topic in flow.topics for partition in topic.partitions)
        for state in TaskState:
            of_flow.add_metric((*name, str(flow.enabled).lower(), state), flow.state is state)
            of_topics.add_metric((*name, state), topics[state])
            of_partitions.add_metric((*name, state), partitions[state])
    return iter((of_flow, of_topics, of_partitions))


def _pace_families(flows: Iterable[FlowStatus]) -> Iterator[Metric]:
    """Yield why and how slow the flows are. Every cause has a sample, so that rates begin at 0."""
    waiting = CounterMetricFamily(
        "mm2_flow_waiting_seconds",
        "Seconds that partitions which were behind have waited, by what for, summed over partitions, since the node"
        " started.",
        labels=(*FLOW, "on"),
    )
    throttle = CounterMetricFamily(
        "mm2_flow_throttle_seconds",
        "Throttle time that brokers of the source or target reported in answers to fetch and produce requests, summed"
        " over answers, since the node started.",
        labels=(*FLOW, "cluster"),
    )
    ages = HistogramMetricFamily(
        "mm2_flow_record_age_seconds",
        "Seconds from the largest timestamp of a batch to its fetch; one observation per batch.",
        labels=FLOW,
    )
    latencies = HistogramMetricFamily(
        "mm2_flow_replication_latency_seconds",
        "Seconds from the largest timestamp of a batch until the target acknowledges it; one observation per batch.",
        labels=FLOW,
    )
    checkpoints = HistogramMetricFamily(
        "mm2_flow_checkpoint_latency_seconds",
        "Seconds from reading a group's offset on the source to the acknowledgement of its checkpoint by the target;"
        " one observation per checkpoint.",
        labels=FLOW,
    )
    for flow in flows:
        if not flow.enabled:
            continue
        name, counters = (flow.source, flow.target), flow.counters
        waited = {wait.on: wait.seconds for wait in counters.waits}
        for cause in Bottleneck:
            waiting.add_metric((*name, cause), waited.get(cause.value, 0.0))
        throttle.add_metric((*name, "source"), counters.source_throttled)
        throttle.add_metric((*name, "target"), counters.target_throttled)
        for family, totals in (
            (ages, counters.ages),
            (latencies, counters.latencies),
            (checkpoints, flow.checkpoint_latencies),
        ):
            family.add_metric(name, buckets=_cumulative(totals), sum_value=totals.sum)
    return iter((waiting, throttle, ages, latencies, checkpoints))


def _cumulative(totals: HistogramTotals) -> list[tuple[str, float]]:
    """Return the buckets as Prometheus counts them: each with all that is below its bound."""
    bounds = (*map(str, BUCKETS), "+Inf")
    return list(zip(bounds, accumulate(totals.counts), strict=True))
