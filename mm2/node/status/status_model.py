"""The status of a node and its flows, from which /flows, /flows/…/groups, /health and /metrics are built.

These classes define the JSON of the REST interface. Field descriptions appear in GET /docs; fields marked `NotServed`
are for metrics, health and the log only. Served fields can be added, but not removed or changed.

The values are immutable and replaced as a whole, so that readers get a consistent snapshot without locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import Field, computed_field

from mm2.core.coordination.pauses import PauseOrigin
from mm2.core.lanes.counters import HistogramTotals, PartitionCounters, SourceTaskCounters
from mm2.core.lanes.loss_book import UnacceptedLosses
from mm2.core.lanes.losses import Loss
from mm2.core.lanes.partition_steps import RecentWaits
from mm2.core.lanes.progress_reports import BatchCount
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.core.observation.unreplicated import Unreplicated
from mm2.core.problems.grouped_problems import PlacedProblem

_T = TypeVar("_T")

NotServed = Annotated[_T, Field(exclude=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One source partition."""

    partition: int
    state: TaskState
    position: Annotated[int | None, Field(description="next source offset to copy; null: unknown")]
    end_offset: Annotated[
        int | None,
        Field(
            description="high watermark on the source; with read_committed, the last stable offset; null: unknown, or"
            " not observed within the last 10 s"
        ),
    ]
    lag_records: Annotated[int | None, Field(description="end_offset minus position; null: unknown")]
    lag_seconds: Annotated[
        float | None,
        Field(description="age of the next record to copy, in seconds; 0: caught up; null: unknown"),
    ]
    error: str | None
    source_task: Annotated[
        int | None, Field(description="number of the source task that copies the partition; null: none or unknown")
    ] = None
    node: Annotated[str, Field(description="ID of the node that copies the partition; empty: none or unknown")] = ""
    step: Annotated[
        str | None, Field(description="what it does (see the table of steps); null: no lane reports it")
    ] = None
    stopped_at: Annotated[
        int | None,
        Field(description="first source offset that cannot be copied and stops the partition; null: none"),
    ] = None
    stopped_until: Annotated[
        int | None, Field(description="first source offset after what cannot be copied; null: nothing")
    ] = None
    observed: Annotated[
        int | None,
        Field(
            description="when the lag was last known, in milliseconds since 1970: the source told its end offset, and"
            " the position was certain; null: it is known, or never was"
        ),
    ] = None
    last_end_offset: Annotated[int | None, Field(description="the end offset at that time; null: see observed")] = None
    last_lag_records: Annotated[
        int | None,
        Field(description="what of it is not copied; null: see observed, or the position was not known"),
    ] = None
    lag_records_at_most: Annotated[
        int | None,
        Field(
            description="upper bound of an unknown lag: the end offset now, minus the last position that was certain;"
            " another node can have copied some of it since; null: the lag is known, or no end offset or position"
        ),
    ] = None
    retention_margin_records: Annotated[
        int | None,
        Field(
            description="source offsets from the log start to the first record not copied; null: nothing is left to"
            " copy, the source never deletes it, or unknown"
        ),
    ] = None
    retention_margin_seconds: Annotated[
        float | None,
        Field(description="seconds until the source deletes that record by its retention; null: as above, or unknown"),
    ] = None
    exact_from: Annotated[
        int | None,
        Field(
            description="source offset from which on the exact offset map knows every position, as the leader read it;"
            " null: unknown, or mm2.offset.translation = compatible"
        ),
    ] = None
    exact_to_start: Annotated[
        bool | None,
        Field(description="whether it knows every position from the source's log start on; null: unknown"),
    ] = None
    # of this node since it started, also if another node copies the partition now
    counters: NotServed[PartitionCounters] = field(default_factory=PartitionCounters)

    @property
    def lag_known(self) -> bool:
        """Whether both position and end offset are known."""
        return self.lag_records is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One replicated topic."""

    topic: Annotated[str, Field(description="name on the source cluster")]
    remote_topic: Annotated[str, Field(description="name on the target cluster")]
    state: Annotated[TaskState, Field(description="worst state of its partitions; FAILED if the topic has an error")]
    error: str | None
    partitions: tuple[PartitionStatus, ...]
    query: Annotated[
        str | None,
        Field(description="name of the query that transforms its records; null: they are copied as they are"),
    ] = None

    @property
    def _margins(self) -> Iterable[tuple[int | None, float | None]]:
        return ((one.retention_margin_records, one.retention_margin_seconds) for one in self.partitions)

    @computed_field(  # type: ignore[prop-decorator]
        description="the smallest retention_margin_records of its partitions; null: none has one"
    )
    @property
    def retention_margin_records(self) -> int | None:
        """The smallest margin of its partitions in source offsets; None: none has one."""
        return min((records for records, _ in self._margins if records is not None), default=None)

    @computed_field(  # type: ignore[prop-decorator]
        description="the smallest retention_margin_seconds of its partitions; null: none has one"
    )
    @property
    def retention_margin_seconds(self) -> float | None:
        """The smallest margin of its partitions in seconds; None: none has one."""
        return min((seconds for _, seconds in self._margins if seconds is not None), default=None)

    def problems(self) -> Iterator[PlacedProblem]:
        """Yield the topic's own problem, if any, and those of its partitions, which also determine its state."""
        partitions = [
            self._problem(one.state, one.error, one.partition)
            for one in self.partitions
            if one.error or one.state is TaskState.FAILED
        ]
        explained = any(one.state is TaskState.FAILED for one in partitions)
        if self.error or (self.state is TaskState.FAILED and not explained):
            yield self._problem(self.state, self.error)
        yield from partitions

    def _problem(self, state: TaskState, reason: str | None, partition: int | None = None) -> PlacedProblem:
        return PlacedProblem(
            state=state, reason=reason, topic=self.topic, remote_topic=self.remote_topic, partition=partition
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """One task of a flow, with the same ID as in Java."""

    id: Annotated[str, Field(description="task ID, such as MirrorSourceConnector-0")]
    kind: Annotated[str, Field(description="source, checkpoint or heartbeat")]
    node: Annotated[str, Field(description="ID of the node that runs the task; empty: none")]
    state: TaskState
    error: str | None
    only_moves: Annotated[
        bool,
        Field(
            description="a checkpoint or heartbeat task that is moving from one node to another, for less than 30 s:"
            " the flow is shown without it, as its records flow"
        ),
    ] = False

    @property
    def problem(self) -> PlacedProblem | None:
        """The task's problem, if it has one."""
        if not self.error and self.state is not TaskState.FAILED:
            return None
        return PlacedProblem(state=self.state, reason=self.error, task=self.id, node=self.node)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """One of the nodes that share a flow."""

    node: Annotated[str, Field(description="node ID")]
    url: Annotated[str, Field(description="REST address for other nodes; empty: none")]
    leads: bool
    capacity: Annotated[
        int,
        Field(description="number of lanes that the node offers; 0: it starts or drains, or Spark does not run them"),
    ]
    tasks: Annotated[tuple[str, ...], Field(description="IDs of the tasks that are assigned to the node")] = ()
    version: Annotated[str, Field(description="release of the node")] = ""
    terms: Annotated[
        str, Field(description="digest of the flow's settings on the node: equal on nodes with equal settings")
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentAuditStatus:
    """Whether each task or partition of a flow has exactly one owner, as counts."""

    assigned: Annotated[int, Field(description="with exactly one owner")] = 0
    moving: Annotated[int, Field(description="without an owner because they are moving to another one")] = 0
    unassigned: Annotated[int, Field(description="without an owner, although they should have one")] = 0
    duplicated: Annotated[int, Field(description="with more than one owner")] = 0
    unexpected: Annotated[int, Field(description="with an owner, although they should have none")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAgainStatus:
    """A source partition that an operator has copied again, until that has caught up."""

    topic: Annotated[str, Field(description="name on the source cluster")]
    partition: int
    state: Annotated[
        str,
        Field(
            description="requested or storing: its records in flight are stored first, then the start, and nothing is"
            " copied meanwhile; started: it is copied again"
        ),
    ]
    first: Annotated[int, Field(description="source offset from which it is copied again")]
    until: Annotated[
        int | None, Field(description="first source offset that was not copied before; null: it is still draining")
    ]
    since: Annotated[int, Field(description="when it was requested, in milliseconds since 1970")]
    by: Annotated[str, Field(description="who requested it")]
    reason: Annotated[str | None, Field(description="why, in the operator's words; null: none given")]


class GroupState(StrEnum):
    """State of the offset translation of a consumer group of the source, or of one of its partitions."""

    TRANSLATED = "TRANSLATED"
    PARTLY_TRANSLATED = "PARTLY_TRANSLATED"
    TOO_OLD = "TOO_OLD"
    NOT_REPLICATED = "NOT_REPLICATED"
    NOT_COMMITTED = "NOT_COMMITTED"
    ACTIVE = "ACTIVE"
    FILTERED = "FILTERED"
    FAILED = "FAILED"
    WAITING = "WAITING"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStatus:
    """A written checkpoint: a source offset and the corresponding target offset."""

    source_offset: int
    target_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitionStatus:
    """One partition for which a consumer group has committed an offset on the source."""

    topic: Annotated[str, Field(description="name on the source cluster")]
    partition: int
    remote_topic: Annotated[
        str | None, Field(description="name on the target cluster; null: the topic is not selected")
    ]
    state: GroupState
    reason: Annotated[str, Field(description="reason for the state")]
    source_offset: Annotated[int | None, Field(description="committed offset of the group on the source")]
    translated_offset: Annotated[
        int | None, Field(description="offset from which the group would resume in the remote topic")
    ]
    precision: Annotated[
        str | None,
        Field(description="exact: no record is read again; conservative: some records can be; null: unknown"),
    ]
    records_read_again: Annotated[
        int | None, Field(description="maximum number of records that are read again; null: unknown")
    ]
    checkpoint: Annotated[CheckpointStatus | None, Field(description="last checkpoint that was written")]
    target_offset: Annotated[
        int | None, Field(description="committed offset of the group on the target at the last group offset sync")
    ]
    sync: Annotated[str | None, Field(description="result of the last group offset sync, as a message")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """One consumer group of a flow's source."""

    group: str
    state: Annotated[GroupState, Field(description="state of the offset translation")]
    reason: Annotated[str, Field(description="reason for the state")]
    source_state: Annotated[str | None, Field(description="Kafka's state of the group on the source")]
    target_state: Annotated[
        str | None,
        Field(description="Kafka's state of the group on the target; null: it does not exist there, or is unknown"),
    ]
    partitions: tuple[GroupPartitionStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowGroups:
    """The response of /flows/{source}/{target}/groups."""

    flow: Annotated[str, Field(description="source->target")]
    source: str
    target: str
    reasons: Annotated[
        tuple[str, ...], Field(description="why groups or translated offsets are missing, outdated or imprecise")
    ]
    groups: tuple[GroupStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Number of observations of a latency since the node started, and their sum in seconds."""

    count: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopicStatus:
    """A topic that was deleted on the source, and whose remote topic remains. Times are in milliseconds since 1970."""

    topic: Annotated[str, Field(description="its name on the source cluster")]
    remote_topic: Annotated[str, Field(description="name on the target cluster")]
    since: Annotated[
        int | None,
        Field(description="when the leader noticed, one discovery after it had seen the topic; null: unknown"),
    ]
    noticed: Annotated[int, Field(description="when a leader first found the topic missing")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatus:
    """One flow of /flows."""

    # A node shows its own tasks and partitions; the leader also those of other nodes, as far as known.
    flow: Annotated[str, Field(description="source->target")]
    source: str
    target: str
    enabled: Annotated[bool, Field(description="false: heartbeats only")]
    state: TaskState
    leader: Annotated[str | None, Field(description="node ID of the leader; null: none")]
    epoch: Annotated[int, Field(description="generation of the group; decisions of a lower generation are invalid")]
    reasons: Annotated[tuple[str, ...], Field(description="errors and warnings, one message each")]
    tasks: tuple[TaskStatus, ...]
    topics: tuple[TopicStatus, ...]
    losses: Annotated[
        tuple[Loss, ...],
        Field(description="the newest 100 of each node: what no operator has accepted, and all since the node started"),
    ] = ()
    members: Annotated[
        tuple[MemberStatus, ...], Field(description="nodes that share the flow, according to the last rebalance")
    ] = ()
    paused: Annotated[
        tuple[str, ...],
        Field(description="paused topics, by their names on the source cluster; an empty string: the whole flow"),
    ] = ()
    paused_since: Annotated[
        Mapping[str, int],
        Field(description="when each of paused was paused, in milliseconds since 1970; what is unknown is left out"),
    ] = field(default_factory=dict)
    paused_by: Annotated[
        Mapping[str, PauseOrigin],
        Field(description="who paused each of paused, and why; what is unknown is left out"),
    ] = field(default_factory=dict)
    assignment_audit: Annotated[
        Mapping[str, AssignmentAuditStatus],
        Field(description="of tasks and of partitions, computed by the leader; empty while there is no leader"),
    ] = field(default_factory=dict)
    limited_by: Annotated[
        str | None,
        Field(
            description="what limits its pace, as a message with shares of the last minute; also that it is caught up,"
            " or that there are no data; null: it copies no topics"
        ),
    ] = None
    last_minute: Annotated[
        RecentWaits | None,
        Field(
            description="what partitions that were behind waited for during the last minute, in seconds summed over"
            " partitions, and for how many seconds any was behind; null: no lane reports any partition"
        ),
    ] = None
    max_bytes_per_second: Annotated[
        int | None, Field(description="limit of what the flow fetches from the source; null: none")
    ] = None
    unreplicated: Annotated[
        Unreplicated | None,
        Field(description="what the target would lack if the source died now; null: no partitions are known"),
    ] = None
    left_selection: Annotated[
        tuple[str, ...] | None,
        Field(
            description="source topics that the flow has replicated and that are not selected any more, although they"
            " exist and topics.exclude does not name them; null: unknown"
        ),
    ] = None
    copying_again: Annotated[
        tuple[CopyAgainStatus, ...],
        Field(description="partitions that an operator has copied again (mm2 copy-again), until that has caught up"),
    ] = ()
    deleted_topics: Annotated[
        tuple[DeletedTopicStatus, ...] | None,
        Field(
            description="source topics that the flow has replicated and that were deleted on the source, with remote"
            " topics that exist, as of the leader's last discovery; null: unknown, such as while the source is away"
        ),
    ] = None
    is_leader: NotServed[bool] = False
    fetch_shares: NotServed[int | None] = None  # this node's part of max_bytes_per_second; None: no limit, or unknown
    is_member: NotServed[bool] = False  # this node is a member of the flow's group
    not_member: NotServed[str | None] = None  # why this node is not a member; None: it is, or is about to join
    config_differs: NotServed[bool | None] = None  # this node's settings of the flow from the leader's; None: unknown
    elsewhere: NotServed[tuple[TopicStatus, ...]] = ()  # partitions of other nodes or of none, if `topics` lacks them
    records_total: NotServed[int] = 0  # records and bytes that this node copied since it started
    bytes_total: NotServed[int] = 0
    batches: NotServed[tuple[BatchCount, ...]] = ()
    # offsets lost, and losses, since the node started, by remote partition
    lost: NotServed[Mapping[TopicPartition, int]] = field(default_factory=dict)
    loss_counts: NotServed[Mapping[TopicPartition, int]] = field(default_factory=dict)
    unaccepted_losses: NotServed[UnacceptedLosses] = field(default_factory=dict)
    heartbeats_total: NotServed[int] = 0
    groups: NotServed[Iterable[GroupStatus]] = ()  # built during iteration, as there can be 100,000 partitions
    group_reasons: NotServed[tuple[str, ...]] = ()  # why there are no groups, or why their status is incomplete
    checkpoint_latency: NotServed[Mapping[str, Latency]] = field(default_factory=dict)  # by group
    skipped: NotServed[Mapping[str, int]] = field(default_factory=dict)  # unreadable records, by internal topic
    counters: NotServed[SourceTaskCounters] = field(default_factory=SourceTaskCounters)  # of this node since it started
    checkpoint_latencies: NotServed[HistogramTotals] = field(default_factory=HistogramTotals)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """The node's configuration file.

    ``digest`` is that of the last valid contents, which were loaded at ``loaded_at``, in epoch seconds. ``pending`` are
    the keys whose new values take effect when the node is restarted. ``problems`` are the errors of the current
    contents; empty if they are valid. ``reasons`` are messages about both.
    """

    path: str
    digest: str
    loaded_at: float
    pending: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneBuffer:
    """Bytes that a lane has fetched and that the target has not acknowledged, and the limit, ``mm2.lane.buffer.bytes``.

    They do not tell why a flow is slow (`FlowStatus.limited_by` does): a target with a quota can leave it almost empty.
    """

    lane: int
    used: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """Whether a cluster answers this node. Times are in milliseconds since 1970."""

    alias: Annotated[str, Field(description="its alias in the file")]
    reachable: Annotated[bool | None, Field(description="whether it answers the node; null: not known yet")]
    since: Annotated[int | None, Field(description="since when it does, or does not")]
    answered: Annotated[int | None, Field(description="when it last answered; null: not since the node started")]
    error: Annotated[str | None, Field(description="why it does not")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneMemory:
    """Memory of the Python processes of a lane: two with a query, otherwise one."""

    lane: int
    flow: Annotated[str | None, Field(description="the flow of its query; null: the lane has no query")]
    query: Annotated[str | None, Field(description="name of its query; null: none")]
    bytes: Annotated[
        int | None,
        Field(description="PSS, with a share of what they have in common with others, at most 30 s old; null: unknown"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """A Spark engine of the node."""

    engine: Annotated[str, Field(description="main, or queries: in local mode queries have an engine of their own")]
    error: Annotated[str | None, Field(description="why it does not run; null: it runs")]
    spark_ui: Annotated[str | None, Field(description="URL of its Spark UI; null: it does not run, or has none")]
    pid: Annotated[int | None, Field(description="its process; null: it does not run")]
    jvm_pid: Annotated[int | None, Field(description="its JVM; null: it does not run")]
    memory_bytes: Annotated[
        int | None, Field(description="PSS of both, at most 30 s old; null: unknown, or it does not run")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateEnd:
    """When a certificate ends: of its cluster and kind the one that ends first."""

    cluster: Annotated[str, Field(description="alias of the cluster; empty: certificate of the node's listeners")]
    kind: Annotated[
        str,
        Field(
            description="own: client certificate of the node; broker: shown by a broker; trusted: of an authority by"
            " which a broker's was verified; listener: of the node's https listeners"
        ),
    ]
    subject: Annotated[str, Field(description="subject of the certificate")]
    expires: Annotated[int, Field(description="in milliseconds since 1970")]
    broker: Annotated[str | None, Field(description="broker that has shown it; null: the certificate is the node's")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The status of a node and all its flows. ``started_at`` is in epoch seconds.

    ``draining``: it hands its tasks over and ends.
    ``renewals``: by alias of each cluster for which the node renews tokens or tickets, why that fails now, or None.
    """

    node_id: str
    version: str
    started_at: float
    flows: tuple[FlowStatus, ...]
    file: FileStatus
    spark_ui: str | None = None
    lane_buffers: tuple[LaneBuffer, ...] = ()
    clusters: tuple[ClusterStatus, ...] = ()
    draining: bool = False
    engines: tuple[EngineStatus, ...] = ()
    lane_memory: tuple[LaneMemory, ...] = ()
    certificates: tuple[CertificateEnd, ...] = ()
    renewals: Mapping[str, str | None] = field(default_factory=dict)
