"""The checkpoint task: writes the target offsets from which the source's consumer groups can resume.

A round reads the offsets committed by the groups, translates them, and writes checkpoints.

As in Java, the groups are distributed over several tasks (`group_assignment`). All checkpoint tasks of a node are one
`CheckpointTask`, so that the offset syncs and the exact map are in memory only once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.assignment.checkpoint_task_records import EVERY_GROUP, FIRST, OwnGroups
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import Checkpoints, CommittedOffset, Emit, Outcome
from mm2.core.offsets.offset_translation import Translation
from mm2.core.offsets.segment_index import SegmentNotLoaded
from mm2.core.plugins import PluginError
from mm2.core.wire.formats import Checkpoint, FormatError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.groups import ReadCommitted, committed_offsets
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.checkpoint.checkpoint_log import CheckpointLog, CheckpointMetrics
from mm2.node.checkpoint.group_errors import GroupErrors
from mm2.node.checkpoint.group_finder import GroupFinder, looks_every_s, remote_name
from mm2.node.checkpoint.group_offset_sync import GroupOffsetSync
from mm2.node.checkpoint.group_status_store import GroupStatusStore
from mm2.node.checkpoint.translation import FlowTranslation, TranslatedPositions
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.common.wakeup import Wakeup
from mm2.node.flow.task_runner import STARTING
from mm2.node.status.status_model import GroupStatus, TaskStatus

ANSWERED_WITHIN_MS = 10_000
"""Timeout of a request to the source, including retries. Groups without a response wait for the next round."""

STEP_PARTITIONS = 500
"""Partitions processed before yielding to the event loop: about 5 ms."""

_READ_COMMITTED: ReadCommitted = partial(committed_offsets, timeout_ms=ANSWERED_WITHIN_MS)

Committed = Mapping[TopicPartition, CommittedOffset | None]


class CheckpointRounds:
    """Translates the offsets of groups in rounds.

    ``doing`` is the current step of a round, for error messages. ``errors`` are the groups for which the last round
    failed.
    """

    def __init__(
        self,
        flow: Flow,
        source: Cluster,
        checkpoints: Checkpoints,
        statuses: GroupStatusStore,
        *,
        translate: Callable[[TopicPartition, int], Translation],
        latest: Callable[[TopicPartition, int], int | None],
        translated: Callable[[Mapping[TopicPartition, int]], Awaitable[TranslatedPositions]],
        write: Callable[[Sequence[Checkpoint], int], Awaitable[None]],
        is_own: Callable[[str], bool],
        read_committed: ReadCommitted = _READ_COMMITTED,
    ) -> None:
        """``translated`` translates positions for which ``translate`` or ``latest`` raise SegmentNotLoaded.
        ``is_own`` returns whether a group is still assigned to this node, which can change at any time."""
        self._read_committed = read_committed
        self._source = source
        self._checkpoints = checkpoints
        self._statuses = statuses
        self._translate = translate
        self._latest = latest
        self._translated = translated
        self._write = write
        self._is_own = is_own
        self.doing = ""
        self.errors = GroupErrors(flow, "cannot translate the offsets of {}")

    async def round(self, groups: Sequence[str]) -> None:
        """Translate every group once. Raises ClusterError if a cluster is unavailable."""
        self.doing = "read group offsets"
        await self._source.metadata(())  # reports an unavailable cluster immediately, not after one timeout per group
        await self.errors.round(groups, self._source, self._translate_groups)

    async def _translate_groups(self, groups: Sequence[str]) -> None:
        self.doing = "read group offsets"
        read_at_ms = time.time_ns() // 1_000_000
        own = [group for group in groups if self._is_own(group)]
        answers = await self._read_committed(self._source, own)
        judged: dict[str, tuple[Committed, Mapping[TopicPartition, Outcome]]] = {}
        partitions = 0
        for group, committed in answers.items():
            try:
                judged[group] = await self._judge(group, committed)
            except (ClusterError, PluginError, FormatError) as error:
                self.errors.report(group, str(error))
                self._statuses.failed(group, str(error))
                continue
            partitions += len(judged[group][1])
            if partitions >= STEP_PARTITIONS:
                partitions = 0
                await asyncio.sleep(0)
        self.doing = "write checkpoints"
        judged = {group: found for group, found in judged.items() if self._is_own(group)}
        outcomes = [outcome for _, found in judged.values() for outcome in found.values()]
        try:
            await self._write([one.checkpoint for one in outcomes if isinstance(one, Emit)], read_at_ms)
        finally:
            for group, (offsets, found) in judged.items():
                self._statuses.judged(group, offsets, found, dict(self._checkpoints.of_group(group)))
        self.doing = "read group offsets"

    async def _judge(
        self, group: str, committed: Committed | ClusterError
    ) -> tuple[Committed, Mapping[TopicPartition, Outcome]]:
        """Decide about each partition of a group.

        Raises errors that concern only this group: ClusterError, PluginError of a custom filter, FormatError.
        """
        if isinstance(committed, ClusterError):
            raise committed
        try:
            outcomes = self._checkpoints.judge(group, committed, self._translate, self._latest)
        except SegmentNotLoaded:
            positions = {one: at.offset for one, at in committed.items() if at is not None and at.offset >= 0}
            known = await self._translated(positions)
            outcomes = self._checkpoints.judge(group, committed, known.translate, known.latest)
        for outcome in outcomes.values():
            if isinstance(outcome, Emit) and outcome.checkpoint.metadata:
                outcome.checkpoint.value()  # raises if the metadata is too long for a checkpoint
        return committed, outcomes


log = logging.getLogger(__name__)


def reason_for_none(settings: FlowSettings) -> str | None:
    """Return why the flow has no checkpoint task; None if it has one."""
    checkpoint = settings.checkpoint
    if not settings.enabled:
        return "the flow is not enabled"
    if not checkpoint.emit_checkpoints_enabled or checkpoint.emit_checkpoints_interval_seconds < 0:
        return "group offsets are not translated: emit.checkpoints.enabled is false, or the interval is negative"
    if not settings.source.emit_offset_syncs_enabled:
        return "group offsets are not translated: emit.offset-syncs.enabled is false, so there is no offset mapping"
    return None


class CheckpointTask:
    """All checkpoint tasks of one node.

    Invariants: (A) no checkpoint of a group is written before those of earlier runs and other nodes were read, or were
    found to be unreadable, so that checkpoints do not move backwards. (B) An error of one group is reported for that
    group and does not affect others. (C) While the source is unavailable, group offset sync continues with the existing
    checkpoints, also for groups of a node that died. (D) Copying does not depend on checkpoints, and ``run`` does not
    end after an error.

    ``checkpoint_metrics`` outlives the task.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        offsets_partitions: int,
        node_id: str,
        checkpoint_metrics: CheckpointMetrics,
        share: OwnGroups = EVERY_GROUP,
        may_send: Callable[[], bool] = lambda: True,
    ) -> None:
        """``may_send``: whether no other node runs the tasks; checkpoints and offsets of others must not move back."""
        self._may_send = may_send
        self._settings = settings
        self._flow = settings.flow
        self._offsets_partitions = offsets_partitions
        self._node_id = node_id
        self._checkpoint_metrics = checkpoint_metrics
        self._run = ""
        self._checkpoints = Checkpoints(aliases=settings.aliases, policy=settings.policy, selects=settings.topic_filter)
        self._statuses = GroupStatusStore(place=lambda topic: remote_name(settings, topic), syncs=self._syncs)
        self._share = share
        self._finder = GroupFinder(settings, self._statuses, share)
        self._found = asyncio.Event()
        self._wakeup = Wakeup()
        self._new_groups: set[str] = set()  # moved here from other nodes, whose last checkpoints must be read first
        self._new_groups_error = CurrentError(log, self._flow)  # why these cannot be read
        self._readable = True
        self._due = Wakeup()
        self._translation: FlowTranslation | None = None
        self._producer: ControlProducer | None = None
        self._group_sync: GroupOffsetSync | None = None
        self._rounds: CheckpointRounds | None = None
        self._error = CurrentError(log, self._flow)  # of the task as a whole
        self._load_error = CurrentError(log, self._flow, "starting")
        self._find_error = CurrentError(log, self._flow, "listing consumer groups")
        self._write_error = CurrentError(log, self._flow)
        self._draining = False

    # -- status

    @property
    def last_error(self) -> str | None:
        """The error that prevents the task as a whole from working, None if there is none."""
        starting = self._load_error.text or (STARTING if self._translation is None else None)
        if self._error.text is not None or starting is not None:
            return self._error.text or starting
        waiting = self._producer.last_error if self._producer is not None else None
        translating = self._translation.last_error if self._translation is not None else None
        syncing = self._group_sync.error.text if self._group_sync is not None else None
        written = f"cannot write checkpoints: {waiting}" if waiting is not None else self._write_error.text
        return translating or self._find_error.text or self._new_groups_error.text or written or syncing

    @property
    def warnings(self) -> list[str]:
        """Warnings about groups whose offsets could not be translated or synced."""
        rounds = (self._rounds, self._group_sync)
        found = [one.errors.warning for one in rounds if one is not None]
        return [warning for warning in found if warning is not None]

    @property
    def group_reasons(self) -> tuple[str, ...]:
        """Why translated offsets are missing, outdated or less precise than requested."""
        exact = self._translation.exact_error if self._translation is not None else None
        return tuple(reason for reason in (self.last_error, exact, *self.warnings) if reason is not None)

    def groups(self) -> Iterable[GroupStatus]:
        """Return the consumer groups of the source that this node shows."""
        return self._statuses

    def status(self, number: int = FIRST) -> TaskStatus:
        """Return the status of task ``number``."""
        state = TaskState.RUNNING if self.last_error is None else TaskState.WAITING
        return TaskStatus(
            id=str(TaskId(TaskKind.CHECKPOINT, number)),
            kind="checkpoint",
            node=self._node_id,
            state=state if self._error.text is None else TaskState.FAILED,
            error=self.last_error,
        )

    def look_now(self) -> None:
        """List groups now instead of at the end of the interval."""
        self._wakeup.ring()

    def take(self, share: OwnGroups) -> None:
        """Translate the groups of this share from now on.

        For other groups nothing more is written, except for writes in flight, which are harmless (`GroupPlan`).
        """
        if share != self._share:
            new = {group for group in share.groups or () if not self._share.has(group)}
            self._new_groups = new | {group for group in self._new_groups if share.has(group)}
            self._share = share
            self._finder.take(share)
            self._wakeup.ring()
            if new:
                self._due.ring()

    def drain(self) -> None:
        """Write nothing more, because the node drains."""
        self._draining = True

    # -- work

    async def run(self) -> None:
        """Find groups and write their checkpoints until cancelled; retry while a cluster is unavailable."""
        await keep_trying(
            self._work,
            self._error,
            "run the checkpoint task",
            expected=(ClusterError, PluginError),  # invalid client settings, a failing custom policy
            unexpected="checkpoint task failed unexpectedly; restarting (see the log)",
        )

    async def _work(self) -> None:
        """Run until an error ends it."""
        self._run = self._checkpoint_metrics.begin()
        clients = self._settings.clients
        async with AsyncExitStack() as stack:

            async def connected(role: ClientRole) -> Cluster:
                return await stack.enter_async_context(Cluster(clients.of(role, 0), may_send=self._may_send))

            source = await connected(ClientRole.CHECKPOINT_SOURCE_ADMIN)
            target = await connected(ClientRole.CHECKPOINT_TARGET_ADMIN)
            writing = await connected(ClientRole.CHECKPOINTS)
            producer = self._producer = await stack.enter_async_context(ControlProducer(writing))
            own = CheckpointLog(
                self._settings,
                self._checkpoints,
                producer,
                await connected(ClientRole.CHECKPOINTS_TARGET_CONSUMER),
                self._checkpoint_metrics,
                offsets_partitions=self._offsets_partitions,
            )
            self._readable = await self._load(own, target)
            translation = self._translation = FlowTranslation(
                self._settings,
                await connected(ClientRole.OFFSET_SYNCS_SOURCE_CONSUMER),
                await connected(ClientRole.OFFSET_SYNCS_TARGET_CONSUMER),
                must_read_to_end=not self._readable,
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(translation.follow(), name=f"{self._flow} translation")
                group.create_task(self._keep_finding(source), name=f"{self._flow} groups")
                group.create_task(self._keep_writing(source, own, translation), name=f"{self._flow} checkpoints")
                if self._syncs:
                    sync = self._group_sync = GroupOffsetSync(
                        self._settings, target, self._checkpoints, self._statuses, self._to_sync
                    )
                    group.create_task(sync.run(), name=f"{self._flow} group offsets")

    @property
    def _syncs(self) -> bool:
        checkpoint = self._settings.checkpoint
        return checkpoint.sync_group_offsets_enabled and checkpoint.sync_group_offsets_interval_seconds > 0

    def _to_sync(self) -> Iterable[str]:
        """Return the groups whose offsets to sync.

        Until the groups of the source have been listed, these are the own groups that already have checkpoints.
        """
        if self._draining:
            return ()
        if self._finder.chosen is None:
            return filter(self._finder.selects, self._checkpoints.groups)
        return {*self._finder.chosen, *filter(self._finder.selects, self._new_groups)}

    async def _load(self, own: CheckpointLog, target: Cluster) -> bool:
        """Create the checkpoints topic and read it; return False if a permanent error prevents reading."""

        async def create() -> None:
            await target.metadata(())  # reports an unavailable cluster immediately, not after admin.timeout.ms
            await own.ensure(target)

        async def load() -> None:
            await target.metadata(())
            await own.load()

        await keep_trying(create, self._load_error, "create the checkpoints topic")
        try:
            await keep_trying(load, self._load_error, "read checkpoints", retriable_only=True)
        except ClusterError as error:
            log.warning(
                "%s: cannot read the checkpoints of earlier runs: %s; translating only offsets of records that are"
                " replicated from now on, so that no group offset moves backwards",
                self._flow,
                error,
            )
            self._load_error.clear()
            return False
        return True

    # -- groups

    async def _keep_finding(self, source: Cluster) -> None:
        while True:
            await keep_trying(lambda: self._finder.find(source), self._find_error, "list consumer groups")
            self._checkpoint_metrics.keep(frozenset(self._finder.chosen or ()))
            self._found.set()
            if self._new_groups:
                self._due.ring()  # their checkpoints can be read now (`_known_groups`)
            await self._wakeup.sleep(looks_every_s(self._settings))

    # -- checkpoints

    async def _keep_writing(self, source: Cluster, own: CheckpointLog, translation: FlowTranslation) -> None:
        """Run rounds until cancelled.

        The first round starts as soon as offsets can be translated, so that a leader change does not delay checkpoints;
        Java first waits for one interval.
        """
        interval = float(self._settings.checkpoint.emit_checkpoints_interval_seconds)
        rounds = self._rounds = CheckpointRounds(
            self._flow,
            source,
            self._checkpoints,
            self._statuses,
            translate=translation.translate,
            latest=translation.latest,
            translated=translation.translated,
            write=own.write,
            is_own=self._is_own,
        )

        async def attempt() -> None:
            try:
                if not self._draining:
                    await rounds.round(await self._known_groups(own))
            finally:
                self._checkpoint_metrics.skipped(self._run, {**translation.skipped, own.topic.name: own.skipped.count})

        await translation.ready.wait()
        await self._found.wait()
        while True:
            await keep_trying(
                attempt,
                self._write_error,
                lambda error: f"cannot {rounds.doing}: {error}",
                sleep=lambda seconds: self._due.sleep(min(interval, seconds)),
            )
            self._error.clear()
            await self._due.sleep(interval)

    def _is_own(self, group: str) -> bool:
        return self._share.has(group)

    async def _known_groups(self, own: CheckpointLog) -> list[str]:
        """Return the groups to translate now.

        The checkpoints that other nodes wrote for new groups are read first: immediately, and again after the groups
        were listed, when the other node has stopped writing for them.
        """
        chosen, is_current, new = list(self._finder.chosen or ()), self._finder.current, set(self._new_groups)
        if new and self._readable:
            try:
                await own.load()
            except ClusterError as error:
                self._new_groups_error.report(f"cannot read the checkpoints of newly assigned groups: {error}", error)
                return [group for group in chosen if group not in self._new_groups]
        self._new_groups_error.clear()
        if is_current:
            self._new_groups -= new
        return chosen
