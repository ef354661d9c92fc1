"""The checkpoint task: where the source's consumer groups would go on in the target, written down (mm2-compat §4).

As in Java, groups are shared out to several tasks (`group_plan`); those of one node are one `CheckpointTask`, which
keeps the offset syncs and the exact map in memory once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import AsyncExitStack

from mm2.config.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.checkpoints import Checkpoints
from mm2.core.group_lists import EVERY_GROUP, FIRST, OwnGroups
from mm2.core.lease import TaskState
from mm2.core.plugins import PluginError
from mm2.core.tasks import TaskId, TaskKind
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterError
from mm2.node.alarm import Alarm
from mm2.node.checkpoint_log import CheckpointLog
from mm2.node.checkpoint_rounds import CheckpointRounds, about_some
from mm2.node.checkpoint_tally import CheckpointTally
from mm2.node.group_book import GroupBook
from mm2.node.group_finder import GroupFinder, looks_every_s, remote_name
from mm2.node.group_offset_sync import GroupOffsetSync
from mm2.node.published import GroupStatus, TaskStatus
from mm2.node.translation import FlowTranslation
from mm2.node.trouble import troubled

log = logging.getLogger(__name__)

RETRY_FIRST_MS = 1_000
RETRY_LONGEST_MS = 10_000
"""A cluster that is away is asked again after a second, then more rarely."""


def reason_for_none(settings: FlowSettings) -> str | None:
    """Why the flow has no checkpoint task; None when it has one (mm2-compat §1.3)."""
    checkpoint = settings.checkpoint
    if not settings.enabled:
        return "the flow is not enabled"
    if not checkpoint.emit_checkpoints_enabled or checkpoint.emit_checkpoints_interval_seconds < 0:
        return "no offsets are translated: emit.checkpoints.enabled is false, or the interval is negative"
    if not settings.source.emit_offset_syncs_enabled:
        return "no offsets are translated: emit.offset-syncs.enabled is false, and nothing tells what offsets became"
    return None


class CheckpointTask:
    """The checkpoint tasks of one node. Invariants: (A) no checkpoint of a group is written before those that earlier
    lives and other nodes wrote were read, or were found to be unreadable: so the checkpoints of each writer follow on
    those before. (B) what goes wrong with one group is told with that group and stops no other. (C) while the source is
    away, group offsets go on to be synced from the checkpoints there are, also for groups of a node that died. (D)
    copying does not depend on it: whatever goes wrong here, ``run`` does not end.

    ``tally`` outlives the task.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        offsets_partitions: int,
        node_id: str,
        tally: CheckpointTally,
        share: OwnGroups = EVERY_GROUP,
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._offsets_partitions = offsets_partitions
        self._node_id = node_id
        self._tally = tally
        self._run = tally.begin()
        self._checkpoints = Checkpoints(flow=settings.flow, policy=settings.policy, selects=settings.topic_filter)
        self._book = GroupBook(place=lambda topic: remote_name(settings, topic), syncs=self._syncs)
        self._share = share
        self._finder = GroupFinder(settings, self._book, share)
        self._found = asyncio.Event()
        self._alarm = Alarm()
        self._came: set[str] = set()  # groups that other nodes had, whose last checkpoints may not be known here yet
        self._unread: str | None = None  # why they are not
        self._readable = True
        self._due = Alarm()
        self._translation: FlowTranslation | None = None
        self._producer: ControlProducer | None = None
        self._group_sync: GroupOffsetSync | None = None
        self._starting: str | None = "starting"
        self._failed: str | None = None
        self._finding: str | None = "looking for consumer groups"
        self._rounds: CheckpointRounds | None = None
        self._writing: str | None = None
        self._draining = False

    # -- what is shown

    @property
    def trouble(self) -> str | None:
        """What keeps the task as a whole from its work, None when nothing does."""
        if self._failed is not None or self._starting is not None:
            return self._failed or self._starting
        waiting = self._producer.trouble if self._producer is not None else None
        translating = self._translation.trouble if self._translation is not None else None
        syncing = self._group_sync.trouble if self._group_sync is not None else None
        written = f"write checkpoints: {waiting}" if waiting is not None else self._writing
        return translating or self._finding or self._unread or written or syncing

    @property
    def warnings(self) -> list[str]:
        """What a person should know though the task runs."""
        found = []
        if self._rounds is not None and self._rounds.failed:
            found.append(about_some("the offsets of {} are not translated", self._rounds.failed))
        if self._group_sync is not None and self._group_sync.refusals:
            found.append(about_some("the offsets of {} are not synced to the target", self._group_sync.refusals))
        return found

    @property
    def group_reasons(self) -> tuple[str, ...]:
        """The same for who asks about groups, and whether answers could be better."""
        exact = self._translation.exact_trouble if self._translation is not None else None
        return tuple(reason for reason in (self.trouble, exact, *self.warnings) if reason is not None)

    def groups(self) -> Iterable[GroupStatus]:
        """The consumer groups of the source that this node tells of."""
        return self._book

    def status(self, number: int = FIRST) -> TaskStatus:
        """Task ``number`` as it is shown."""
        state = TaskState.RUNNING if self.trouble is None else TaskState.WAITING
        return TaskStatus(
            id=str(TaskId(TaskKind.CHECKPOINT, number)),
            kind="checkpoint",
            node=self._node_id,
            state=state if self._failed is None else TaskState.FAILED,
            error=self.trouble,
        )

    def look_now(self) -> None:
        """Look for groups now, not at the end of the interval."""
        self._alarm.ring()

    def take(self, share: OwnGroups) -> None:
        """Look after these groups from now on. For others nothing more is written; a write on its way may still
        arrive, which does no harm (`GroupPlan`)."""
        if share != self._share:
            came = {group for group in share.groups or () if not self._share.has(group)}
            self._came = came | {group for group in self._came if share.has(group)}
            self._share = share
            self._finder.take(share)
            self._alarm.ring()
            if came:
                self._due.ring()

    def drain(self) -> None:
        """Change nothing any more: the node is being drained."""
        self._draining = True

    # -- the work

    async def run(self) -> None:
        """Find groups and write their checkpoints until cancelled; clusters that are away are waited for."""
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while True:
            try:
                await self._work()
            except (
                ClusterError,
                PluginError,
            ) as error:  # settings no client can be made of, a policy without an answer
                self._failed = troubled(log, self._flow, self._failed, f"checkpoints: {error}")
            except Exception:
                log.exception("%s: unexpected error, checkpoints begin again", self._flow)
                self._failed = "checkpoints: an unexpected error, see the log; they begin again"
            await asyncio.sleep(backoff.next())
            self._run = self._tally.begin()

    async def _work(self) -> None:
        """One life of the task; nothing but an error ends it."""
        clients = self._settings.clients
        async with AsyncExitStack() as stack:

            async def connected(role: ClientRole) -> Cluster:
                return await stack.enter_async_context(Cluster(clients.of(role, 0)))

            source = await connected(ClientRole.CHECKPOINT_SOURCE_ADMIN)
            target = await connected(ClientRole.CHECKPOINT_TARGET_ADMIN)
            writing = await connected(ClientRole.CHECKPOINTS)
            producer = self._producer = await stack.enter_async_context(ControlProducer(writing))
            own = CheckpointLog(
                self._settings,
                self._checkpoints,
                producer,
                await connected(ClientRole.CHECKPOINTS_TARGET_CONSUMER),
                self._tally,
                offsets_partitions=self._offsets_partitions,
            )
            self._readable = await self._load(own, target)
            translation = self._translation = FlowTranslation(
                self._settings,
                await connected(ClientRole.OFFSET_SYNCS_SOURCE_CONSUMER),
                await connected(ClientRole.OFFSET_SYNCS_TARGET_CONSUMER),
                must_read_to_end=not self._readable,
            )
            self._starting = None
            async with asyncio.TaskGroup() as group:
                group.create_task(translation.follow(), name=f"{self._flow} translation")
                group.create_task(self._keep_finding(source), name=f"{self._flow} groups")
                group.create_task(self._keep_writing(source, own, translation), name=f"{self._flow} checkpoints")
                if self._syncs:
                    sync = self._group_sync = GroupOffsetSync(
                        self._settings, target, self._checkpoints, self._book, self._to_sync
                    )
                    group.create_task(sync.run(), name=f"{self._flow} group offsets")

    @property
    def _syncs(self) -> bool:
        checkpoint = self._settings.checkpoint
        return checkpoint.sync_group_offsets_enabled and checkpoint.sync_group_offsets_interval_seconds > 0

    def _to_sync(self) -> Iterable[str]:
        """While the source has not been asked yet, those of ours that earlier lives or other nodes wrote checkpoints
        for."""
        if self._draining:
            return ()
        if self._finder.chosen is None:
            return filter(self._finder.selects, self._checkpoints.groups)
        return {*self._finder.chosen, *filter(self._finder.selects, self._came)}

    async def _load(self, own: CheckpointLog, target: Cluster) -> bool:
        """Create the checkpoints topic and read it. False when it will not be read, whatever we wait for."""
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        ensured = False
        while True:
            try:
                await target.metadata(())  # a cluster that is away is said at once, not after admin.timeout.ms
                if not ensured:
                    await own.ensure(target)
                    ensured = True
                await own.load()
            except ClusterError as error:
                if ensured and not error.retriable:
                    log.warning(
                        "%s: the checkpoints of earlier runs cannot be read: %s. Offsets are translated only from what"
                        " is replicated from now on, so that no group is set back",
                        self._flow,
                        error,
                    )
                    return False
                self._starting = troubled(
                    log, self._flow, self._starting, f"{'read' if ensured else 'create'} checkpoints: {error}"
                )
                await asyncio.sleep(backoff.next())
            else:
                return True

    # -- groups

    async def _keep_finding(self, source: Cluster) -> None:
        again = looks_every_s(self._settings)
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        while True:
            try:
                await self._finder.find(source)
            except ClusterError as error:
                self._finding = troubled(log, self._flow, self._finding, f"look for consumer groups: {error}")
                await asyncio.sleep(backoff.next())
            else:
                self._finding = None
                self._tally.keep(frozenset(self._finder.chosen or ()))
                self._found.set()
                if self._came:
                    self._due.ring()  # they have waited long enough
                backoff.reset()
                await self._alarm.sleep(again)

    # -- checkpoints

    async def _keep_writing(self, source: Cluster, own: CheckpointLog, translation: FlowTranslation) -> None:
        """Rounds. The first comes as soon as offsets can be translated, where Java waits for one interval: so a change
        of the leader does not make checkpoints late."""
        interval = float(self._settings.checkpoint.emit_checkpoints_interval_seconds)
        backoff = Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS)
        rounds = self._rounds = CheckpointRounds(
            self._flow,
            source,
            self._checkpoints,
            self._book,
            translate=translation.translate,
            latest=translation.latest,
            write=own.write,
            ours=self._is_ours,
        )
        await translation.ready.wait()
        await self._found.wait()
        while True:
            try:
                if not self._draining:
                    await rounds.round(await self._known(own))
            except ClusterError as error:
                self._writing = troubled(log, self._flow, self._writing, f"{rounds.doing}: {error}")
                pause = min(interval, backoff.next())
            else:
                self._writing = self._failed = None
                backoff.reset()
                pause = interval
            self._tally.skipped(self._run, {**translation.skipped, own.topic.name: own.skipped.count})
            await self._due.sleep(pause)

    def _is_ours(self, group: str) -> bool:
        return self._share.has(group)

    async def _known(self, own: CheckpointLog) -> list[str]:
        """The groups to look at now. Of those that came it is read first what another node wrote for them: at once, and
        again when the source was asked for them, by when the other node has heard that they went."""
        chosen, looked, came = list(self._finder.chosen or ()), self._finder.current, set(self._came)
        if came and self._readable:
            try:
                await own.load()
            except ClusterError as error:
                self._unread = troubled(log, self._flow, self._unread, f"read checkpoints of groups that came: {error}")
                return [group for group in chosen if group not in self._came]
        self._unread = None
        if looked:
            self._came -= came
        return chosen
