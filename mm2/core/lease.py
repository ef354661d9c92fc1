"""What node and lane say to each other: orders down, progress up (design: leases).

Declarative: orders are the whole of what a lane should run, and the lane brings itself there. A lost or repeated
message therefore does no harm; only the newest version counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.client_settings import ClientSettings, FetchSettings, ProduceSettings
from mm2.core.exact_offset_records import UNKNOWN_IDS, TopicIds
from mm2.core.names import Flow


class LeaseRefusedError(Exception):
    """The caller has no right to run (any more): another run has the lease. It must stop at once."""


class TaskState(StrEnum):
    """States as the REST interface shows them (contract: REST)."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DRAINING = "DRAINING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLease:
    """One source partition to copy. ``start_offset`` is the next source offset wanted; None: nothing is stored,
    auto.offset.reset decides.

    ``topic_ids``: the topics that ``start_offset`` speaks of; one of other ids has to be copied from its beginning.
    ``made_anew``: the source topic is another one than that of the stored offset, which is void. ``start_offset`` is
    the new one's beginning then, and is to be stored before anything else.
    ``last_segment``: the value, in base64, of the newest record in the exact offsets' topic (`exact_offset_records`).
    """

    topic: str
    partition: int
    remote_topic: str
    start_offset: int | None
    topic_ids: TopicIds = UNKNOWN_IDS
    made_anew: bool = False
    last_segment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLease:
    """Where source offsets are stored: topic mm2-offsets.<source>.internal on the target, ``partitions`` wide.
    Offsets of partitions that moved are written every ``flush_interval_ms`` and at drain."""

    client: ClientSettings
    topic: str
    partitions: int
    flush_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncsLease:
    """Where offset syncs go (partition 0 of ``topic``), and offset.lag.max in records."""

    client: ClientSettings
    topic: str
    lag_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOffsetsLease:
    """Where exact offsets go (partition 0 of ``topic``), in segments of which each partition keeps ``slots``."""

    client: ClientSettings
    topic: str
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLease:
    """The right of one lane to run one slot, until revoked or expired. A lower ``epoch`` is void; a higher ``restart``
    of the same epoch asks to begin anew from ``start_offset``s, after the slot had failed."""

    flow: Flow
    slot: int
    epoch: int
    restart: int = 0
    source: ClientSettings
    fetch: FetchSettings
    target: ClientSettings
    produce: ProduceSettings
    offsets: OffsetsLease
    offset_syncs: OffsetSyncsLease | None
    exact_offsets: ExactOffsetsLease | None = None
    partitions: tuple[PartitionLease, ...]
    drain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOrders:
    """Everything a lane should be running. ``buffer_bytes`` bounds what it holds between fetch and acknowledgement;
    ``end`` asks the lane to stop what it still runs and leave."""

    version: int
    slots: tuple[SlotLease, ...] = ()
    end: bool = False
    buffer_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProgress:
    """How far one source partition is. Offsets are the source's; totals count from the start of this lane run.

    ``position``: next offset to copy, everything before it is acknowledged by the target or carries no data (-1: not
    known yet). ``stored``: the next offset a restart would begin at. ``end_offset``: high watermark, or last stable
    offset under read_committed (-1: not known yet). ``latency_*`` and ``age_*`` are seconds, one observation a batch.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Source offsets ``first`` up to, not including, ``until`` that can no longer be copied, and why."""

    topic: str
    partition: int
    first: int
    until: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCount:
    """Batches sent by one path: ``pass-through`` with reason "", or ``rebatch`` with its reason."""

    path: str
    reason: str
    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotProgress:
    """One slot's report. ``drained``: nothing in flight and all offsets stored, the slot may be given away.
    ``warnings``: sentences a person should see though everything runs. ``whole`` False: ``partitions`` leaves out those
    of which the last report, which the node has answered, said the same."""

    flow: Flow
    slot: int
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
    """What a lane reports about once a second. ``version`` is that of the orders it carries out."""

    version: int
    pid: int
    slots: tuple[SlotProgress, ...] = ()
    buffered_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """What a lane shows to get its lease: the token Spark was handed, and which attempt of the task it is."""

    token: str = field(repr=False)
    attempt: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """The node's answer: a ``session`` secret to sign progress with, and the seconds without contact after which the
    lane has lost its right and stops itself."""

    session: str = field(repr=False)
    lease_seconds: float
    orders: LaneOrders


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePlace:
    """Where lanes ask for their leases. It travels in the Spark plan: nothing in it is secret.

    For an https ``url``: ``ca_pem`` are the certificates that vouch for the node, ``check_hostname`` asks for the URL's
    host in the certificate it shows.
    """

    url: str
    ca_pem: str | None = None
    check_hostname: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStart:
    """One lane the engine should be running; a new ``token`` for the same lane means: run it again."""

    lane: int
    token: str = field(repr=False)
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOrders:
    """All lanes the engine should be running."""

    version: int
    lanes: tuple[LaneStart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneEnd:
    """A lane's Spark job that is over: by itself (``error`` None) or with the last line of what went wrong."""

    lane: int
    token: str = field(repr=False)
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport:
    """What the engine tells the node with every call. On a cluster, ``executors`` is how many it has given, and
    ``unplaced`` are the lanes whose tasks none of them runs."""

    version: int
    pid: int
    jvm_pid: int | None
    spark_ui: str | None
    ended: tuple[LaneEnd, ...] = ()
    executors: int = 0
    unplaced: tuple[int, ...] = ()
