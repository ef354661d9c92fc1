"""What a node shows of itself: the shapes behind /flows, /health and the metrics (contract: REST).

The node replaces these values; whoever reads them gets a consistent picture without locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.lease import BatchCount, Loss, TaskState
from mm2.core.names import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One source partition. Offsets are the source's, -1 where not known yet; totals since the node started.
    ``*_sum`` are seconds, one observation a batch. ``slot`` and ``node``: who copies it; None and empty: nobody, or not
    known here."""

    partition: int
    state: TaskState
    position: int
    end_offset: int
    lag_records: int
    lag_seconds: float
    error: str | None
    records_total: int
    bytes_total: int
    latency_sum: float
    latency_count: int
    age_sum: float
    age_count: int
    slot: int | None = None
    node: str = ""

    @property
    def lag_known(self) -> bool:
        """Whether both ends of the lag are known; before that ``lag_records`` and ``lag_seconds`` say nothing."""
        return self.position >= 0 and self.end_offset >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One replicated topic; ``state`` is the worst of its partitions and of the remote topic's own trouble."""

    topic: str
    remote_topic: str
    state: TaskState
    error: str | None
    partitions: tuple[PartitionStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """``id`` is Java's: MirrorSourceConnector-0 and so on. ``kind``: source, checkpoint or heartbeat. ``node``: who
    runs it, empty while nobody does."""

    id: str
    kind: str
    node: str
    state: TaskState
    error: str | None


class GroupState(StrEnum):
    """What becomes of a consumer group of the source, or of one of its partitions (contract: REST)."""

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
class GroupPartitionStatus:
    """One partition a group has committed on the source. ``reason`` says in a sentence why ``state`` is what it is.

    ``source_offset``: the group's. ``translated_offset``: where it would go on in ``remote_topic``; ``exact`` when no
    record is read again there, else records of up to ``read_again`` source offsets are. ``checkpoint``: source and
    target offset of the last one written. ``target_offset``: what the group has committed on the target. ``sync``:
    what group offset sync made of it, in a sentence. None: not known, or there is none.
    """

    topic: str
    partition: int
    remote_topic: str | None
    state: GroupState
    reason: str
    source_offset: int | None = None
    translated_offset: int | None = None
    exact: bool | None = None
    read_again: int | None = None
    checkpoint: tuple[int, int] | None = None
    target_offset: int | None = None
    sync: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """One consumer group of the source, and in a sentence why ``state`` is what it is. ``source_state`` and
    ``target_state`` are Kafka's words; None: not known, or the target has no such group."""

    group: str
    state: GroupState
    reason: str
    source_state: str | None = None
    target_state: str | None = None
    partitions: tuple[GroupPartitionStatus, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Observations of a time since the node started, and their sum in seconds."""

    count: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """One node of a flow. ``url``: where others reach it, empty where they cannot. ``capacity``: how many lanes it
    offers; 0 while it leaves. ``tasks``: what it was given. ``terms``: digest of what its file says of the flow."""

    node: str
    url: str
    leads: bool
    capacity: int
    tasks: tuple[str, ...] = ()
    version: str = ""
    terms: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageStatus:
    """How many tasks, or partitions, are run once, are on their way, or are not as they should be (`core.coverage`)."""

    covered: int = 0
    moving: int = 0
    uncovered: int = 0
    doubled: int = 0
    stray: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatus:
    """A flow as one node knows it: its tasks and partitions are those of this node, and where it leads all others too,
    as far as it knows them.

    ``leader``: node id or None. ``reasons``: one sentence for each thing that keeps the flow from running well.
    ``members``: the nodes that share the flow, as of the last round. ``paused``: what operators paused, by names on the
    source; empty text: the whole flow. ``coverage``: of tasks and of partitions, where this node leads.

    ``groups`` are made while one goes through them: there may be 100,000 partitions in them. ``group_reasons``: why
    there are none, or why they are not quite what they should be. ``checkpoint_latency``: by group, from a checkpoint's
    timestamp to its acknowledgement. ``skipped``: records that could not be read, by internal topic.
    """

    flow: Flow
    enabled: bool
    state: TaskState
    leader: str | None
    is_leader: bool
    epoch: int
    reasons: tuple[str, ...] = ()
    tasks: tuple[TaskStatus, ...] = ()
    topics: tuple[TopicStatus, ...] = ()
    batches: tuple[BatchCount, ...] = ()
    losses: tuple[Loss, ...] = ()
    heartbeats_total: int = 0
    groups: Iterable[GroupStatus] = ()
    group_reasons: tuple[str, ...] = ()
    checkpoint_latency: Mapping[str, Latency] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    members: tuple[MemberStatus, ...] = ()
    paused: tuple[str, ...] = ()
    coverage: Mapping[str, CoverageStatus] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """The node's configuration file. ``digest`` is of its contents when it was found good last, at ``loaded_at``, epoch
    seconds. ``pending``: keys in it that are in force when the node is started again. ``problems``: why what stands
    there now is not in force; empty while it is. ``reasons``: the same in sentences."""

    path: str
    digest: str
    loaded_at: float
    pending: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The whole picture. ``started_at`` is epoch seconds."""

    node_id: str
    version: str
    started_at: float
    flows: tuple[FlowStatus, ...]
    file: FileStatus
    spark_ui: str | None = None
