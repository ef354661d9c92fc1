"""The work of a flow's leader: discovery, topic syncs, lists of source tasks and groups, pauses, session key.

Everything that the other nodes need is published in ``mm2-configs.<source>.internal``.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from mm2.config.reload.fingerprint import differ
from mm2.config.reload.java_config_diff import differences
from mm2.config.settings import FlowSettings
from mm2.core.assignment.assignment_audit import AssignmentAudit, assignment_audit
from mm2.core.assignment.partition_assignment import WEIGHT
from mm2.core.assignment.partition_load import weights_of
from mm2.core.assignment.query_source_tasks import query_names, spread_by_query
from mm2.core.assignment.source_task_plan import SourceTaskPlan
from mm2.core.assignment.source_task_records import SourceTaskRecord, encode_source_task
from mm2.core.assignment.source_task_reports import SourceTaskReport
from mm2.core.assignment.task_placement import TaskAssignments
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination import command_records, config_fingerprint, pauses, skips
from mm2.core.coordination.command_records import encode_command
from mm2.core.coordination.commands import Command
from mm2.core.coordination.config_fingerprint import ConfigFingerprint, encode_fingerprint
from mm2.core.coordination.pauses import Pauses, encode_pauses
from mm2.core.coordination.query_uses import ReportedQueryUses
from mm2.core.coordination.session_keys import SESSION_KEY, encode_session_key, needs_new_key, new_session_key
from mm2.core.coordination.skips import encode_skips
from mm2.core.masking import Renewed, hide
from mm2.core.naming import internal_topics
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.connect_offsets import alias_change
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.topics.deleted_topics import Deletion
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.transaction_coordinator import TransactionCoordinator
from mm2.kafka.retrying import retried
from mm2.node.checkpoint.checkpoint_task import reason_for_none
from mm2.node.checkpoint.translation import EXACT
from mm2.node.common.current_error import CurrentError
from mm2.node.common.fencing_errors import FencingFailedError, permanent_fix
from mm2.node.common.keep_trying import keep_trying
from mm2.node.leader.config_writer import ConfigWriter
from mm2.node.leader.discovery import DecideStarts, TopicDiscovery
from mm2.node.leader.fetch_share_writer import FetchShareWriter
from mm2.node.leader.group_assignment import GroupPlan
from mm2.node.leader.map_retention import MapRetention
from mm2.node.leader.query_history_writer import QueryHistoryWriter
from mm2.node.leader.remote_topics import Discovery
from mm2.node.leader.selection_watch import DeletionWatch, SelectionWatch
from mm2.node.leader.starts.latest_start_writer import LatestStartWriter
from mm2.node.leader.starts.repeat_writer import RepeatWriter
from mm2.node.leader.topic_syncs import TopicSyncs
from mm2.node.source.newest_segments import NewestSegments
from mm2.node.source.remote_copies import RemoteCopies
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.status.map_extents import MapExtents
from mm2.node.status.progress import ReplicatedTopic
from mm2.node.status.status_model import TopicStatus
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.java_config import NotOfJavaError, read_java_config

log = logging.getLogger(__name__)

SESSION_KEY_LOOK_S = 10.0
"""How often the age of the session key is checked; its default lifetime is an hour."""

SKIPS_LOOK_S = 10.0
"""How often the stored offsets are read while a record is to be skipped."""

WEIGH_EVERY_S = 10.0
"""Maximum age of the weights of source tasks; adding up 10,000 partitions takes some milliseconds."""

EVEN_OUT_EVERY_S = 60.0
"""How often partitions are rebalanced by load; measurements have a half-life of a minute."""


COMMAND_MS = 5_000
"""How long a command asks the source for offsets."""

AT_ONCE = 8
"""Transactional IDs fenced at the same time."""

FENCING_MS = 30_000
"""Limit for one transactional ID; then the term fails and is started again."""

_FIRST_PAUSE_MS = 20  # as in Java: the time a coordinator needs to write the markers of a transaction
_TRANSACTION_TIMEOUT_MS = 1  # as in Java (Admin.fenceProducers): nothing is written with the producer


class AliasCheck:
    """Warns about partitions that do not continue because of source.cluster.alias.

    (A) The check precedes ``then``: under latest, a start is stored for each partition without a stored offset, after
        which it is unknown which partitions had none.

    ``warning`` is shown until the node leads again or the flow restarts.
    """

    def __init__(self, settings: FlowSettings, stored: StoredSourceOffsets, *, then: DecideStarts) -> None:
        """``then`` decides where partitions start."""
        self._settings = settings
        self._stored = stored
        self._then = then
        self._is_due = True
        self.warning: str | None = None

    def checked_by(self, previous: AliasCheck) -> None:
        """Take the result of an earlier check, under settings that differ in nothing that matters here."""
        self._is_due, self.warning = previous._is_due, previous.warning

    async def decide(self, discovery: Discovery) -> Discovery:
        """Check, and decide where partitions start (`DecideStarts`)."""
        if self._is_due:
            await self._check(discovery)
        return await self._then(discovery)

    async def _check(self, discovery: Discovery) -> None:
        settings, flow = self._settings, self._settings.flow
        try:
            await self._stored.refresh()
        except ClusterError as error:
            log.info("%s: cannot check under which alias source offsets are stored: %s", flow, error)
            return
        self._is_due = False
        others = self._stored.under_other_aliases
        if settings.storage.offsets.name != internal_topics.source_offsets(flow).name:  # others may use it
            others = {alias: found for alias, found in others.items() if alias == flow.source}
        self.warning = alias_change(
            flow, settings.aliases.source, discovery.partitions, stored=self._stored.stored, elsewhere=others
        )
        if self.warning is not None:
            log.warning("%s: %s", flow, self.warning)


async def log_differences(settings: FlowSettings, target: Cluster) -> None:
    """Log the differences between this file and the configuration that Java last stored for the flow, in one line.

    For information only: a topic that cannot be read, or a record that was not written by Java, is logged and ignored.
    """
    try:
        java = await read_java_config(settings, target, timeout_ms=settings.source.admin_timeout_ms)
    except ClusterError as error:
        log.info("%s: cannot read the configuration stored by Java MirrorMaker: %s", settings.flow, error)
        return
    except NotOfJavaError as error:
        log.warning("%s: ignoring %s", settings.flow, error)
        return
    if java is None:
        return
    found = differences(settings, java.properties)
    if found:
        when = datetime.fromtimestamp(java.stored_ms / 1000, UTC)
        log.warning(
            "%s: this file differs from the configuration that Java MirrorMaker used for the flow (stored %s UTC): %s",
            settings.flow,
            f"{when:%Y-%m-%d %H:%M}",
            "; ".join(map(str, found)),
        )


class TaskFencer:
    """Does for one term what Java's leader does before it starts source tasks, if its writes are transactional.

    (A) When `fence` returns, no source task of Java, and none without an owner among our nodes, writes any more.
    (B) `due` covers every source task with a list, so that a leader of Java that takes over later fences its owner.
    """

    def __init__(self, settings: FlowSettings, target: Cluster, configs: ConfigStore) -> None:
        self._settings = settings
        self._target = target
        self._configs = configs
        self._retries = replace(target.settings, retry_backoff_ms=_FIRST_PAUSE_MS)
        self._in_use: set[int] = set()  # source tasks whose transactional IDs may be in use, whatever the lists are

    async def fence(self, owners: Mapping[int, str], reports: Iterable[SourceTaskReport]) -> None:
        """Fence the lost owners of source tasks, at the start of a term, when the config topic was read.

        ``owners`` are the members that own source tasks. A source task whose owner has reported its list is never
        fenced. Raises groups of FencingFailedErrors.
        """
        fencing = self._configs.fencing
        confirmed = {one.source_task for one in reports if owners.get(one.source_task) == one.member}
        lost = fencing.to_fence(owners, confirmed, self._configs.source_tasks.records)
        if lost:
            log.info("%s: fencing %d source tasks without an owner", self._settings.flow, len(lost))
        limit = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for source_task in lost:
                tasks.create_task(self._fence(source_task, limit), name=f"{self._settings.flow} fence {source_task}")
        self._in_use = set(owners)

    async def _fence(self, source_task: int, limit: asyncio.Semaphore) -> None:
        transactional_id = f"{self._settings.worker.group_id}-{TaskId(TaskKind.SOURCE, source_task)}"
        coordinator = TransactionCoordinator(
            self._target, transactional_id, timeout_ms=_TRANSACTION_TIMEOUT_MS, purpose="fencing"
        )
        async with limit:
            try:
                await retried(coordinator.init, self._retries, timeout_ms=FENCING_MS)
            except ClusterError as error:
                fix = permanent_fix(error, transactional_id)
                what = f"cannot fence the lost owner of source task {source_task}: {error}"
                raise FencingFailedError(f"{what}; {fix}" if fix else what) from error

    def due(self, lists: Iterable[SourceTaskRecord]) -> list[tuple[bytes, bytes]]:
        """Return the records to write with ``lists``, the newest of each source task; none if they are stored."""
        self._in_use.update(record.source_task for record in lists if record.partitions)
        return self._configs.fencing.records(self._in_use)


class LeaderTerm:
    """The term of a leader, from its election to the loss of leadership.

    Invariants: (A) no decision is made before all records published by earlier leaders were read and those leaders are
    fenced (if the broker allows transactions). With exactly.once.source.support = preparing or enabled, lost owners of
    source tasks are fenced, too. (B) An error of the leader does not stop running tasks: every node
    keeps its assignment.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        generation: int,
        source: Cluster,
        target: Cluster,
        configs: ConfigStore,
        reports: Mapping[int, SourceTaskReport],
        query_uses: ReportedQueryUses,
        fingerprint: Callable[[], ConfigFingerprint | None],
        changed: Callable[[], None],
        source_offsets: StoredSourceOffsets | None = None,
        previous: LeaderTerm | None = None,
    ) -> None:
        """``reports`` are the source task reports that were read so far; later ones are passed to `take_report`.
        ``query_uses`` are the reports about queries; `take_query_uses` is called after each new one.

        ``fingerprint`` returns the fingerprint of this node's file. ``changed`` is called when tasks appeared,
        disappeared or changed their weight, so that a rebalance can be due. ``source_offsets``: the stored offsets, by
        which skips end, and to which starts are added. ``previous`` is this node's term under earlier settings; its
        topics are shown until those of this term are known.
        """
        self._flow = settings.flow
        self._settings = settings
        self._generation = generation
        self._source = source
        self._target = target
        self._configs = configs
        self._fingerprint = fingerprint
        self._changed = changed
        replication_filter = settings.replication_filter
        admin: ClusterAdmin = settings.admin_class(target)
        shown: Discovery | None = previous._discovery.latest if previous is not None else None
        self._alias_check: AliasCheck | None = None
        if source_offsets is not None:
            self._alias_check = self._new_alias_check(source_offsets, admin, previous)
        self._deletions = DeletionWatch(settings, source, target, configs, self._put)
        self._selection: SelectionWatch = SelectionWatch(
            settings,
            replication_filter,
            published=configs.source_tasks.records.values,
            stored=source_offsets,
            previous=None if previous is None else previous._selection,
            deletions=self._deletions,
        )
        self._discovery: TopicDiscovery = TopicDiscovery(
            settings,
            settings.admin_class(source),
            admin,
            replication_filter,
            published=configs.source_tasks.records.values,
            shown=shown,
            decide_starts=None if self._alias_check is None else self._alias_check.decide,
            selection=self._selection,
        )
        self._syncs = TopicSyncs(settings, source, admin, self._discovery, replication_filter)
        self._reports = reports
        transactional_id = f"connect-cluster-{settings.worker.group_id}"  # Java's
        support = f"{settings.flow.target}.exactly.once.source.support = {settings.worker.exactly_once_source_support}"
        self._writer = ConfigWriter(
            target,
            configs.topic,
            transactional_id,
            required_by=support if settings.worker.transactional_leader else None,
        )
        self._fencer = TaskFencer(settings, target, configs) if settings.worker.transactional_leader else None
        self._writing = asyncio.Lock()
        self._skipping = asyncio.Lock()
        self._source_offsets = source_offsets
        self._map: MapRetention | None = None
        if settings.own.offset_translation == EXACT and settings.enabled:
            self._map = MapRetention(settings, source=source, target=target)
        self._map_shown = MapExtents()
        self._groups = GroupPlan(settings, source, configs, generation=generation, put=self._put, changed=changed)
        self._query_histories = QueryHistoryWriter(settings.flow, configs, query_uses, self._put)
        self._fetch_shares = FetchShareWriter(
            settings, configs, reports=reports, owners=lambda: self._owners, put=self._put
        )
        self.repeats = None if source_offsets is None else self._repeat_writer(source_offsets)
        self._topic_ids: Mapping[str, TopicIds] = {}
        self._plan: SourceTaskPlan | None = None
        self._owners: dict[int, str] = {}
        self._demands: dict[TopicPartition, int] = {}
        self._unwritten_lists: list[SourceTaskRecord] = []
        self._wanted: Mapping[int, tuple[TopicPartition, ...]] = {}
        self._spread: tuple[TopicPartition, ...] | None = None
        self._spread_at = float("-inf")
        self._weights: dict[int, int] = {}
        self._weighed_at = float("-inf")
        self._covered: tuple[object, AssignmentAudit[TopicPartition]] | None = None
        self._due = asyncio.Event()
        self._publishing = CurrentError(log, settings.flow)

    def _new_alias_check(
        self, stored: StoredSourceOffsets, admin: ClusterAdmin, previous: LeaderTerm | None
    ) -> AliasCheck:
        settings = self._settings
        starts = LatestStartWriter(
            settings,
            source=self._source,
            configs=self._configs,
            segments=NewestSegments(settings, admin) if settings.own.offset_translation == EXACT else None,
            copies=RemoteCopies(settings, self._target),
            stored=stored,
            put=self._put,
        )
        check = AliasCheck(settings, stored, then=starts.decide)
        if previous is not None and previous._alias_check is not None:
            check.checked_by(previous._alias_check)
        return check

    def _repeat_writer(self, stored: StoredSourceOffsets) -> RepeatWriter:
        return RepeatWriter(
            self._settings,
            configs=self._configs,
            stored=stored,
            put=self._put,
            log_starts=self.log_starts,
            is_free=lambda one: self._plan is not None and self._plan.is_free(one),
            topics=lambda: None if self._discovery.latest is None else self._discovery.latest.topics,
            changed=self._want,
        )

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Lead until cancelled; ``on_ready`` is called when the term has started.

        Raises (groups of) ClusterErrors: Fenced if another node is the leader, and permanent errors.
        """
        await self._writer.begin()
        await self._configs.catch_up()
        mine, published = self._fingerprint(), self._configs.terms
        if mine is not None and published is not None:
            self._selection.file_changed = differ(mine.digest, published.digest)
        epoch = self._configs.source_tasks.epoch_of_next_leader(self._generation)
        self._plan = SourceTaskPlan(self._configs.source_tasks, epoch)
        self._plan.owned(self._owners)
        for report in self._reports.values():
            self.take_report(report)
        if self._fencer is not None:
            await self._fencer.fence(self._owners, self._reports.values())
        self.publish_fingerprint()
        on_ready()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_session_key(), name=f"{self._flow} session key")
            tasks.create_task(self._keep_published(self._plan), name=f"{self._flow} publish")
            tasks.create_task(self._query_histories.run(), name=f"{self._flow} histories of queries")
            tasks.create_task(self._fetch_shares.run(), name=f"{self._flow} shares of what is fetched")
            if self._source_offsets is not None:
                tasks.create_task(self._keep_skips(self._source_offsets), name=f"{self._flow} skips")
            if self.repeats is not None:
                tasks.create_task(self.repeats.run(), name=f"{self._flow} repeats")
            if self._settings.enabled:
                tasks.create_task(self._discovery.run(self._take_discovery), name=f"{self._flow} discover")
                tasks.create_task(self._syncs.run(), name=f"{self._flow} topic syncs")
                if self._map is not None:
                    tasks.create_task(self._map.run(), name=f"{self._flow} exact offset map")
                tasks.create_task(log_differences(self._settings, self._target), name=f"{self._flow} Java configs")
            if reason_for_none(self._settings) is None:
                tasks.create_task(self._groups.run(), name=f"{self._flow} lists of groups")

    @property
    def started(self) -> bool:
        """Whether all records published by earlier leaders were read."""
        return self._plan is not None

    @property
    def flow(self) -> Flow:
        """The flow that this node leads."""
        return self._flow

    # -- assignment

    def take_placement(self, placement: TaskAssignments) -> None:
        """Apply the assignment of a rebalance."""
        self._owners = {
            task.number: place.owner
            for task, place in placement.places.items()
            if task.kind == TaskKind.SOURCE and place.owner is not None
        }
        if self._plan is not None:
            self._plan.owned(self._owners)
            self._due.set()

    def weights(self) -> dict[int, int]:
        """Return the weight of each source task: the sum of its partitions' weights, by their demand."""
        now = time.monotonic()
        if now - self._weighed_at >= WEIGH_EVERY_S or self._weights.keys() != self._configs.source_tasks.records.keys():
            known = weights_of(self._demands)
            self._weighed_at = now
            self._weights = {
                source_task: sum(known.get(partition, WEIGHT) for partition in record.partitions)
                for source_task, record in self._configs.source_tasks.records.items()
            }
        return self._weights

    # -- source tasks

    async def _take_discovery(self, discovery: Discovery) -> None:
        """Assign the discovered partitions to source tasks, unless the assignment is recent and unchanged."""
        assert self._plan is not None
        now = time.monotonic()
        even = discovery.partitions == self._spread and now - self._spread_at < EVEN_OUT_EVERY_S
        ids = {topic.topic: topic.topic_ids for topic in discovery.topics if any(topic.topic_ids)}
        names, tasks_max = [one.name for one in self._settings.queries.in_order], self._settings.source.tasks_max
        if not even:
            self._demands = {one: self._demands[one] for one in discovery.partitions if one in self._demands}
            queries = {topic.topic: names.index(topic.query) for topic in discovery.topics if topic.query is not None}
            self._wanted = await asyncio.to_thread(  # 0.1 s for 10,000 partitions is too long for the event loop
                spread_by_query,
                discovery.partitions,
                queries,
                tasks_max=tasks_max,
                previous=self._plan.source_tasks,
                weights=weights_of(self._demands),
            )
            self._spread, self._spread_at = discovery.partitions, now
        self._topic_ids = ids
        self._want()

    def _want(self) -> None:
        """Plan what was last spread over source tasks, without the partitions whose start is being stored."""
        if self._plan is None or self._spread is None:
            return
        names, tasks_max = [one.name for one in self._settings.queries.in_order], self._settings.source.tasks_max
        self._plan.want(
            self._wanted,
            self._topic_ids,
            query_names(self._wanted, names, tasks_max=tasks_max),
            held=self._configs.repeats.pending,
        )
        self._due.set()

    def take_report(self, report: SourceTaskReport) -> None:
        """Apply a source task report: which list the source task runs, and the demand of its partitions."""
        self._demands |= report.demands
        if self._plan is not None:
            self._plan.take_report(report)
            self._due.set()

    def take_query_uses(self) -> None:
        """Store what was reported about queries."""
        self._query_histories.take_reported()

    async def _keep_published(self, plan: SourceTaskPlan) -> None:
        """Publish lists when they change. Lists that could not be written are retried before newer ones."""
        while True:
            await self._due.wait()
            self._due.clear()
            self._unwritten_lists += plan.due()
            if self._unwritten_lists or self._unpublished_fingerprint() or self._unrecorded_ids(plan):
                await keep_trying(
                    lambda: self._publish_due(plan),
                    self._publishing,
                    "publish source task lists",
                    retriable_only=True,
                    min_ms=100,
                )
                self._due.set()  # partitions removed from a source task without an owner can be assigned now
                self._changed()

    async def _publish_due(self, plan: SourceTaskPlan) -> None:
        lists = [pair for record in self._unwritten_lists for pair in encode_source_task(record)]
        await self._put([*self._unrecorded_ids(plan), *lists])
        await self._put(self._unpublished_fingerprint())
        self._unwritten_lists.clear()
        await self._configs.catch_up()

    def _unrecorded_ids(self, plan: SourceTaskPlan) -> list[tuple[bytes, bytes]]:
        """Return the records that must not be newer than the lists: which transactional IDs may be in use."""
        return [] if self._fencer is None else self._fencer.due(plan.lists.values())

    # -- other published records

    def publish_fingerprint(self) -> None:
        """Publish the fingerprint of this node's file, if it has changed."""
        self._due.set()

    def _unpublished_fingerprint(self) -> list[tuple[bytes, bytes]]:
        mine = self._fingerprint()
        if mine is None or mine == self._configs.terms:
            return []
        return [(config_fingerprint.KEY, encode_fingerprint(mine))]

    async def pause(self, paused: Pauses) -> None:
        """Replace the flow's pauses by ``paused`` on every node. Raises ClusterError."""
        await self._put([(pauses.KEY, encode_pauses(paused))])

    async def skip(self, partition: TopicPartition, offset: int) -> None:
        """Leave out what cannot be copied at this source offset, on the node that runs it. Raises ClusterError."""
        async with self._skipping:
            await self._put([(skips.KEY, encode_skips(self._configs.skips.skip(partition, offset)))])
            await self._configs.catch_up()

    async def start_again(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Let those start that have no stored offset (`LeaseBuilder.held`); return them. Raises ClusterError."""
        stored = self._source_offsets
        if stored is None:
            return []
        await stored.refresh()
        missing = sorted(one for one in partitions if stored.is_missing(one))
        for number, records in stored.records(dict.fromkeys(missing)).items():
            await self._put(records, TopicPartition(stored.topic, number))
        return missing

    async def stored_positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the stored next source offset of those of the partitions that have one. Raises ClusterError."""
        stored = self._source_offsets
        if stored is None:
            return {}
        await stored.refresh()
        return {one: position for one in partitions if (position := stored.position(one)) is not None}

    async def log_starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | ClusterError]:
        """Return the first offset of source partitions, or why it is not known."""
        return await list_offsets(self._source, partitions, OffsetSpec.EARLIEST, timeout_ms=COMMAND_MS)

    async def offsets_at(
        self, partitions: Collection[TopicPartition], time_ms: int
    ) -> Mapping[TopicPartition, int | ClusterError]:
        """Return the offset of the first record of source partitions from a time on, or why it is not known.

        ``time_ms``: since 1970. -1: there is no record from then on.
        """
        return await list_offsets(self._source, partitions, time_ms, timeout_ms=COMMAND_MS)

    async def _keep_skips(self, stored: StoredSourceOffsets) -> None:
        error = CurrentError(log, self._flow, level=logging.INFO)
        while True:
            await asyncio.sleep(SKIPS_LOOK_S)
            if self._configs.skips.offsets:
                await keep_trying(
                    lambda: self._forget_skips(stored), error, "forget skips", retriable_only=True, max_ms=60_000
                )

    async def _forget_skips(self, stored: StoredSourceOffsets) -> None:
        """Remove the skips behind which copying would resume."""
        await stored.refresh()
        async with self._skipping:
            known = self._configs.skips
            due = known.still_due({partition: stored.position(partition) for partition in known.offsets})
            if due != known:
                await self._put([(skips.KEY, encode_skips(due))])
                await self._configs.catch_up()

    async def publish_command(self, command: Command) -> None:
        """Send a command to every node. Raises ClusterError."""
        await self._put([(command_records.KEY, encode_command(command, time.time_ns() // 1_000_000))])

    async def _keep_session_key(self) -> None:
        error = CurrentError(log, self._flow, level=logging.INFO)
        while True:
            await keep_trying(
                self._renew_session_key, error, "write the session key", retriable_only=True, max_ms=60_000
            )
            await asyncio.sleep(SESSION_KEY_LOOK_S)

    async def _renew_session_key(self) -> None:
        rules = self._settings.worker.session_keys
        now_ms = time.time_ns() // 1_000_000
        reason = needs_new_key(self._configs.session_key, rules, now_ms)
        if reason is not None:
            log.debug("%s: creating a new session key: %s", self._flow, reason)
            key = new_session_key(rules, now_ms, secrets.token_bytes)
            hide(key.secret, kind=Renewed.SESSION_KEY)
            await self._put([(SESSION_KEY, encode_session_key(key))])
            await self._configs.catch_up()

    async def _put(self, records: Sequence[tuple[bytes, bytes | None]], to: TopicPartition | None = None) -> None:
        async with self._writing:
            await self._writer.put(records, to)

    def refresh(self) -> None:
        """Refresh topics, groups, topic configurations and ACLs now."""
        self._discovery.refresh()
        self._groups.refresh()
        self._syncs.refresh()

    # -- status

    @property
    def topics(self) -> tuple[ReplicatedTopic, ...]:
        """All replicated topics."""
        return self._discovery.latest.topics if self._discovery.latest is not None else ()

    @property
    def left_selection(self) -> tuple[str, ...] | None:
        """The topics that were replicated and are not selected any more, although they exist; None: unknown."""
        return self._selection.left

    @property
    def deleted_topics(self) -> Mapping[str, Deletion] | None:
        """The topics that were replicated and were deleted on the source; None: unknown, such as while it is away."""
        return self._deletions.deletions if self.error is None else None

    def assignment_audit(self) -> AssignmentAudit[TopicPartition]:
        """Return whether each source partition that can be copied is in the list of exactly one source task.

        Until the topics have been read for the first time, those of the last leader's lists are all that is known.
        """
        latest = self._discovery.latest
        lists = tuple(self._configs.source_tasks.records.values())
        wanted = latest.partitions if latest is not None else None
        moving = self._plan.moving if self._plan is not None else frozenset()
        if self._configs.repeats.pending:
            moving |= self._configs.repeats.pending
        if self._covered is None or self._covered[0] != (wanted, lists, moving):
            held = {str(record.source_task): record.partitions for record in lists}
            listed: Iterable[TopicPartition] = frozenset().union(*held.values()) if wanted is None else wanted
            self._covered = (wanted, lists, moving), assignment_audit(listed, held, moving=moving)
        return self._covered[1]

    def confirmed(self, source_task: int) -> bool:
        """Return whether the node that runs the source task has reported that it runs the newest list."""
        return self._plan is not None and self._plan.confirmed(source_task)

    @property
    def error(self) -> str | None:
        """The error of topic discovery, which affects the flow as a whole; None if there is none."""
        return self._discovery.error.text if self._settings.enabled else None

    def with_map_extents(self, topics: Iterable[TopicStatus]) -> tuple[TopicStatus, ...]:
        """Return the status of topics with how far back their exact offset map goes."""
        return self._map_shown.fill(topics, {} if self._map is None else self._map.extents)

    def reasons(self) -> list[str]:
        """Return the errors and warnings of the leader."""
        errors = (self._publishing, self._groups.error, self._query_histories.error, self._fetch_shares.error)
        aliases = None if self._alias_check is None else self._alias_check.warning
        found = [self.error, *(one.text for one in errors), self._writer.warning, aliases, self._selection.reason]
        found.append(None if self._map is None else self._map.error.text)
        repeats = [] if self.repeats is None else self.repeats.reasons()
        return [*(one for one in found if one is not None), *repeats, *self._discovery.warnings, *self._syncs.warnings]
