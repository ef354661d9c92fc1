"""Messages between node and lane: orders to the lane, progress reports to the node.

Orders are declarative: they contain everything a lane should run, not changes. Lost or repeated messages therefore do
no harm; only the newest version counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.naming.names import Flow
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS, TopicIds
from mm2.core.offsets.leader_epochs import EpochStarts
from mm2.core.settings.client import ClientSettings, FetchSettings, ProduceSettings


class LeaseRefusedError(Exception):
    """The caller does not have the lease, or another run took it over. It must stop immediately."""


class LeaseNotReadyError(Exception):
    """The lease cannot be granted yet. The caller repeats its request."""


class TaskState(StrEnum):
    """States as shown by the REST interface."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DRAINING = "DRAINING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


class LossKind(StrEnum):
    """Causes of a loss. Later releases can add some, so fields with a kind are plain strings.

    ``SKIPPED`` and ``DEAD_LETTER`` are losses that the operator asked for: they never stop anything.
    """

    RETENTION = "retention"
    TRUNCATED = "truncated"
    TOPIC_DELETED = "topic-deleted"
    TOPIC_RECREATED = "topic-recreated"
    OUT_OF_RANGE = "out-of-range"
    SKIPPED = "skipped"
    DEAD_LETTER = "dead-letter"


class OnDataLoss(StrEnum):
    """The values of mm2.on.data.loss."""

    CONTINUE = "continue"
    STOP_PARTITION = "stop-partition"
    STOP_FLOW = "stop-flow"


LossKey = tuple[str, int, int, str, str]
"""Topic, partition, first offset, kind and topic ID of a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Source records that can no longer be copied, as reported by lanes and recorded in `loss_records`.

    For kind ``truncated``, records that the target has and the source no longer has. ``until`` equal to ``first``: the
    extent is unknown.
    """

    topic: str
    partition: int
    first: int = field(metadata={"description": "first source offset that is lost"})
    until: int = field(metadata={"description": "first source offset after the lost range"})
    reason: str
    kind: str = field(default="", metadata={"description": "the cause, a `LossKind`; empty: unknown"})
    time: int | None = field(default=None, metadata={"description": "when it was noticed, epoch ms; null: unknown"})
    last: int = field(
        default=-1, metadata={"description": "last source offset that is lost; first - 1: the extent is unknown"}
    )
    count: int = field(default=1, metadata={"description": "number of losses that were merged into this one"})
    lost: int | None = field(
        default=None, metadata={"description": "lost offsets between first and last; null: all of them"}
    )
    topic_id: str | None = field(
        default=None, metadata={"description": "ID of the source topic that continues after the loss; null: unknown"}
    )
    stops: str = field(
        default="", metadata={"description": "what stopped until the loss is accepted: partition, flow, or empty"}
    )
    accepted: bool = field(default=False, metadata={"description": "whether an operator accepted the loss"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", self.until - 1)

    @property
    def offsets(self) -> int:
        """The number of lost offsets."""
        return self.until - self.first if self.lost is None else self.lost

    @property
    def awaits_acceptance(self) -> bool:
        """Whether copying waits for an operator to accept the loss."""
        return bool(self.stops) and not self.accepted

    @property
    def key(self) -> LossKey:
        """What tells it from other losses; it is the same if the loss is noticed again with another extent."""
        return self.topic, self.partition, self.first, self.kind, self.topic_id or ""

    def is_same(self, other: Loss) -> bool:
        """Return whether ``other`` is this loss, though possibly noticed at another time with another extent."""
        return self.key == other.key


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLease:
    """One source partition to copy. ``start_offset`` is the next source offset to copy; None: no offset is stored and
    auto.offset.reset decides.

    ``topic_ids``: the topics that ``start_offset`` refers to; topics with other IDs have to be copied from the
    beginning. ``topic_recreated``: the source topic was recreated and the stored offset is void. ``start_offset`` is
    then the new topic's beginning, and has to be stored first. ``last_segment``: the value, in base64, of the newest
    record in the exact offsets topic (`exact_offset_records`). ``leader_epochs``: of the source's records before
    ``start_offset``, as far as they are known.

    ``former``: the source offsets (first, until) of the deleted topic that were not copied, as far as known; None:
    nothing was left to copy, or the topic was not recreated. ``stopped_by``: a loss that an operator has to accept
    before anything is copied. ``accepted_loss``: the loss of the partition that was accepted last. ``skip_offset``: an
    operator has asked to leave out what cannot be copied at this source offset.
    """

    topic: str
    partition: int
    remote_topic: str
    start_offset: int | None
    topic_ids: TopicIds = UNKNOWN_IDS
    topic_recreated: bool = False
    last_segment: str | None = None
    former: tuple[int, int] | None = None
    stopped_by: Loss | None = None
    accepted_loss: Loss | None = None
    leader_epochs: EpochStarts = ()
    skip_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLease:
    """Where source offsets are stored: ``topic`` (mm2-offsets.<source>.internal) on the target, with ``partitions``
    partitions. Changed offsets are written every ``flush_interval_ms`` and during a drain."""

    client: ClientSettings
    topic: str
    partitions: int
    flush_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncsLease:
    """Where offset syncs are written (partition 0 of ``topic``), and offset.lag.max in records."""

    client: ClientSettings
    topic: str
    lag_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOffsetsLease:
    """Where exact offsets are written (partition 0 of ``topic``); each source partition keeps ``segments`` segments."""

    client: ClientSettings
    topic: str
    segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LossesLease:
    """Where losses are written (partition 0 of ``topic``), and what a loss stops."""

    client: ClientSettings
    topic: str
    on_data_loss: OnDataLoss = OnDataLoss.CONTINUE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettersLease:
    """Where records that cannot be copied are written (partition 0 of ``topic``), through the client of the records.

    ``context_headers``: with headers that say where a record is from and why it cannot be copied.
    """

    topic: str
    context_headers: bool = True


@dataclass(frozen=True, slots=True)
class TaskProducer:
    """The producer that a source task continues: the broker rejects what an older ``epoch`` of it writes.

    The ``transactional_id`` is that of Java's task; records are written outside transactions.
    """

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskLease:
    """The right of one lane to run one source task, until revoked or expired.

    A lower ``epoch`` is void. A higher ``restart`` in the same epoch requests a restart from the ``start_offset``s,
    after the source task failed. ``producer`` None: the target cannot fence source tasks, or idempotence is disabled.
    ``dead_letters`` None: a record that cannot be copied stops its partition.
    """

    flow: Flow
    source_task: int
    epoch: int
    restart: int = 0
    source: ClientSettings
    fetch: FetchSettings
    target: ClientSettings
    produce: ProduceSettings
    offsets: OffsetsLease
    offset_syncs: OffsetSyncsLease | None
    exact_offsets: ExactOffsetsLease | None = None
    losses: LossesLease | None = None
    partitions: tuple[PartitionLease, ...]
    producer: TaskProducer | None = None
    drain: bool = False
    dead_letters: DeadLettersLease | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOrders:
    """Everything a lane should run.

    ``buffer_bytes`` limits the data between fetch and acknowledgement; ``end`` requests the lane to stop all source
    tasks and exit.
    """

    version: int
    source_tasks: tuple[SourceTaskLease, ...] = ()
    end: bool = False
    buffer_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """Replication progress of one source partition. Offsets are source offsets; totals start at 0 with this lane run.

    ``position``: next offset to copy; everything before it is acknowledged by the target, left out or carries no data
    (-1: unknown yet). ``stored``: the offset a restart would start at. ``end_offset``: high watermark, or last stable
    offset under read_committed (-1: unknown yet). ``latency_*`` and ``age_*`` are seconds, with one observation per
    batch. ``stopped_at`` and ``stopped_until``: the offsets, without the last, that cannot be copied and stop the
    partition; None: it is not stopped by a record.
    """

    topic: str
    partition: int
    remote_topic: str
    state: TaskState
    position: int = -1
    stored: int | None = None
    end_offset: int = -1
    lag_seconds: float = 0.0
    records_total: int = 0
    bytes_total: int = 0
    latency_sum: float = 0.0
    latency_count: int = 0
    age_sum: float = 0.0
    age_count: int = 0
    error: str | None = None
    stopped_at: int | None = None
    stopped_until: int | None = None
    dead_letters_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCount:
    """Batches sent through one path: ``pass-through`` with reason "", or ``rebatch`` with its reason."""

    path: str
    reason: str
    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskProgress:
    """One source task's report.

    ``drained``: nothing is in flight and all offsets are stored, so the source task can be reassigned. ``warnings``:
    messages for the operator while everything runs. ``whole`` False: ``partitions`` omits those unchanged since the
    last report that the node has answered.
    """

    flow: Flow
    source_task: int
    epoch: int
    state: TaskState
    drained: bool = False
    error: str | None = None
    partitions: tuple[PartitionProgress, ...] = ()
    whole: bool = True
    batches: tuple[BatchCount, ...] = ()
    losses: tuple[Loss, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneProgress:
    """A lane's report, sent about once a second. ``version`` is that of the orders it is executing."""

    version: int
    pid: int
    source_tasks: tuple[SourceTaskProgress, ...] = ()
    buffered_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A lane's request for its lease, with the token passed through Spark and the attempt number of the Spark task."""

    token: str = field(repr=False)
    attempt: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLease:
    """For how many ``seconds`` the source tasks of a flow may send anything, unless the lease is renewed.

    It ends before the node's own membership in the flow's group can, so that another node's tasks never run beside
    these. 0: the node is not a member.
    """

    flow: Flow
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewal:
    """The node's response to a lane. ``orders`` None: they have not changed.

    The lane stops itself ``seconds`` after it has sent the request, unless another one is answered. The leases of
    ``flows`` also count from then, and are at most as long.
    """

    seconds: float
    flows: tuple[FlowLease, ...] = ()
    orders: LaneOrders | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """The node's response to a `LeaseRequest`: a ``session`` secret to sign reports with, and the first orders."""

    session: str = field(repr=False)
    renewal: LeaseRenewal


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePlace:
    """Where lanes request their leases. It is part of the Spark plan and contains no secrets.

    For an https ``url``: ``ca_pem`` contains the CA certificates to verify the node with; ``check_hostname`` requires
    the URL's host in the node's certificate.
    """

    url: str
    ca_pem: str | None = None
    check_hostname: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStart:
    """One lane the engine should run; a new ``token`` for the same lane requests a new run.

    ``description`` lists its source tasks at the start, for Spark's UI; empty if there are none yet.
    """

    lane: int
    token: str = field(repr=False)
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOrders:
    """All lanes the engine should run."""

    version: int
    lanes: tuple[LaneStart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneEnd:
    """A lane's Spark job that ended: normally (``error`` None) or with the last line of its error."""

    lane: int
    token: str = field(repr=False)
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport:
    """The engine's report to the node, sent with every call.

    On a Spark cluster, ``executors`` is the number of executors granted, and ``unplaced`` are the lanes whose tasks run
    on none of them.
    """

    version: int
    pid: int
    jvm_pid: int | None
    spark_ui: str | None
    ended: tuple[LaneEnd, ...] = ()
    executors: int = 0
    unplaced: tuple[int, ...] = ()
