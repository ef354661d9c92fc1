"""Messages between node and lane: leases and orders to the lane; `progress_reports` has the reports to the node, and
`engine_orders` the messages between node and engine.

Orders are declarative: they contain everything a lane should run, not changes. Lost or repeated messages therefore do
no harm; only the newest version counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mm2.core.lanes.losses import Loss, OnDataLoss
from mm2.core.lanes.query_trials import NO_TRIAL, QueryTrial
from mm2.core.mirror1.user_class import UserClass
from mm2.core.naming.names import Flow
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS, TopicIds
from mm2.core.offsets.leader_epochs import EpochStarts
from mm2.core.settings.client import ClientSettings, FetchSettings, ProduceSettings
from mm2.core.settings.row_query import RowQuery, RowTransform


class LeaseRefusedError(Exception):
    """The caller does not have the lease, or another run took it over. It must stop immediately."""


class LeaseNotReadyError(Exception):
    """The lease cannot be granted yet. The caller repeats its request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLease:
    """One source partition to copy. ``start_offset`` is the next source offset to copy; None: no offset is stored and
    auto.offset.reset decides.

    ``topic_ids``: the topics that ``start_offset`` refers to; topics with other IDs have to be copied from the
    beginning. ``topic_recreated``: the source topic was recreated and the stored offset is void. ``start_offset`` is
    then the new topic's beginning, and has to be stored first. ``last_segment``: the partition's newest record in the
    exact offsets topic, as `segment_text`. ``leader_epochs``: of the source's records before ``start_offset``, as far
    as they are known.

    ``uncopied_of_deleted_topic``: the source offsets (first, until) of the deleted topic that were not copied, as far
    as known; None: nothing was left to copy, or the topic was not recreated. ``stopped_by``: a loss that an
    operator has to accept before anything is copied. ``accepted_loss``: the loss of the partition that was accepted
    last. ``recorded_loss``: the loss of the partition that was recorded last. ``skip_offset``: an operator has asked to
    leave out what cannot be copied at this source offset.

    ``repeat``: how many times operators have had the partition copied again. If it has increased, ``start_offset``
    counts, although the lane knows a later one. ``copied_until``: the source offset up to which it was copied before;
    what the source deletes before that is not lost.
    """

    topic: str
    partition: int
    remote_topic: str
    start_offset: int | None
    topic_ids: TopicIds = UNKNOWN_IDS
    topic_recreated: bool = False
    last_segment: str | None = None
    uncopied_of_deleted_topic: tuple[int, int] | None = None
    stopped_by: Loss | None = None
    accepted_loss: Loss | None = None
    recorded_loss: Loss | None = None
    leader_epochs: EpochStarts = ()
    skip_offset: int | None = None
    repeat: int = 0
    copied_until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLease:
    """Where source offsets are stored: ``topic`` (mm2-offsets.<source>.internal) on the target, with ``partitions``
    partitions, under keys with ``source_alias``. Changed offsets are written every ``flush_interval_ms`` and during a
    drain."""

    client: ClientSettings
    topic: str
    partitions: int
    source_alias: str
    flush_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncsLease:
    """Where offset syncs are written (partition 0 of ``topic``), and offset.lag.max in records."""

    client: ClientSettings
    topic: str
    lag_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOffsetsLease:
    """Where exact offsets are written (partition 0 of ``topic``)."""

    client: ClientSettings
    topic: str


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

    The ``transactional_id`` is that of Java's task. Under at-least-once, records are written outside transactions.
    """

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsLease:
    """Exactly-once: records, their source offsets and exact offsets are written in transactions of the task's producer.

    A transaction is committed ``interval_ms`` after its first record, or as soon as it has ``max_bytes`` of records.
    ``timeout_ms``: the broker aborts it after that time (transaction.timeout.ms).
    """

    interval_ms: int = 100
    max_bytes: int = 16 * 1024 * 1024
    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneQuery:
    """What a SQL lane does with each record. ``name`` is the NAME of the keys mm2.sql.NAME.*.

    ``hides_values``: contents of records that cannot be copied must not appear in dead letters and messages.
    """

    name: str
    action: RowQuery | RowTransform
    hides_values: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRouting:
    """Records are written one by one, each to the partition of its key (Java's murmur2), instead of batch by batch.

    ``handler``: a user's message handler, which makes a list of records of each; None: each is written as it is.
    """

    handler: UserClass | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskLease:
    """The right of one lane to run one source task, until revoked or expired.

    A lower ``epoch`` is void. A higher ``restart`` in the same epoch requests a restart from the ``start_offset``s,
    after the source task failed. ``producer`` None: the target cannot fence source tasks, or idempotence is disabled.
    ``transactions`` None: at least once; otherwise ``producer`` is not None. ``dead_letters`` None: a record that
    cannot be copied stops its partition. ``query``: all of its records pass through this query, in a lane of the same
    query; None: they are copied as they are. ``offsets`` None: the node stores the positions that the lane reports.
    ``routing``: records keep neither their batches nor their partitions; not together with ``query``, ``offset_syncs``,
    ``exact_offsets`` or ``transactions``, which need the offsets of the copies. ``validates_partitions``: whether the
    invariants of partitions are checked while they run.
    """

    flow: Flow
    source_task: int
    epoch: int
    restart: int = 0
    source: ClientSettings
    fetch: FetchSettings
    target: ClientSettings
    produce: ProduceSettings
    offsets: OffsetsLease | None
    offset_syncs: OffsetSyncsLease | None
    exact_offsets: ExactOffsetsLease | None = None
    losses: LossesLease | None = None
    partitions: tuple[PartitionLease, ...]
    producer: TaskProducer | None = None
    transactions: TransactionsLease | None = None
    drain: bool = False
    dead_letters: DeadLettersLease | None = None
    query: LaneQuery | None = None
    routing: RecordRouting | None = None
    validates_partitions: bool = False

    @property
    def clients(self) -> tuple[ClientSettings, ...]:
        """The settings of all its clients."""
        places = (self.offsets, self.offset_syncs, self.exact_offsets, self.losses)
        return (self.source, self.target, *(place.client for place in places if place is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOrders:
    """Everything a lane should run.

    ``buffer_bytes`` limits the data between fetch and acknowledgement; ``end`` requests the lane to stop all source
    tasks and exit. ``trusted``: trusted certificates that clients refer to, between node and lane
    (`mm2.core.lanes.shared_trust`). ``credentials``: the contents, in base64, of the files that logins name, for lanes
    on other machines (`mm2.core.lanes.lease`). ``trial``: how the frames of a SQL lane pass through its query.
    ``log_levels``: from which level on the lane logs, by logger.
    """

    version: int
    source_tasks: tuple[SourceTaskLease, ...] = ()
    end: bool = False
    buffer_bytes: int = 64 * 1024 * 1024
    trusted: tuple[str, ...] = field(default=(), repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    trial: QueryTrial = NO_TRIAL
    log_levels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A lane's request for its lease, with the token passed through Spark, which grants one session.

    ``nonce``: chosen by the lane's process. With it, it alone can repeat the request if the response was lost.
    """

    token: str = field(repr=False)
    nonce: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLease:
    """For how many ``seconds`` the source tasks of a flow may send anything, unless the lease is renewed.

    It ends before the node's own membership in the flow's group can, so that another node's tasks never run beside
    these. 0: the node is not a member.
    """

    flow: Flow
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTaskShare:
    """How much a source task may fetch: its share of mm2.max.bytes.per.second (`mm2.core.lanes.fetch_shares`)."""

    flow: Flow
    source_task: int
    bytes_per_second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewal:
    """The node's response to a lane. ``orders`` None: they have not changed.

    The lane stops itself ``seconds`` after it has sent the request, unless another one is answered. The leases of
    ``flows`` also count from then, and are at most as long. Source tasks without one of ``fetch_shares`` fetch without
    a limit.
    """

    seconds: float
    flows: tuple[FlowLease, ...] = ()
    fetch_shares: tuple[SourceTaskShare, ...] = ()
    orders: LaneOrders | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """The node's response to a `LeaseRequest`: a ``session`` secret to sign reports with, and the first orders."""

    session: str = field(repr=False)
    renewal: LeaseRenewal


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEndpoint:
    """Where lanes request their leases. It is sent with Spark's tasks, as the token of the lane is.

    For an https ``url``: ``ca_pem`` contains the CA certificates to verify the node with; ``check_hostname`` requires
    the URL's host in the node's certificate. ``certificate_pem`` and ``key_pem``: the client certificate of lanes if
    the listener requires one. The node issues it for one run and alone accepts it; its own key stays with it.
    """

    url: str
    ca_pem: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)


MAX_FAILED_RECORD_BYTES = 4 * 1024 * 1024
"""Spark's message is asked only for smaller batches, which node and engine have in memory several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRecordReport:
    """A lane's report of a record for which its query failed; the node answers with Spark's message, or null.

    ``batch`` as in `mm2.core.lanes.engine_orders.FailedRecord`.
    """

    topic: str
    partition: int
    batch: str


def credentials_of(leases: Iterable[SourceTaskLease], contents: Mapping[str, str]) -> Mapping[str, str]:
    """Return those of the ``contents``, by file, that clients of ``leases`` use."""
    files = {file for lease in leases for client in lease.clients for file in client.files}
    return {file: content for file, content in contents.items() if file in files}
