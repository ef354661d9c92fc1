"""Group offset sync: commits translated offsets for groups that are idle on the target (KIP-545)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from mm2.config.settings import FlowSettings
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.checkpoints import Checkpoints, CommittedOffset
from mm2.core.offsets.group_offsets import Active, Decision, Idle, TargetGroup, Write, decide, target_group
from mm2.core.wire.formats import Checkpoint
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.groups import GroupActive, commit_offsets, committed_offsets, group_states
from mm2.node.checkpoint.group_errors import GroupErrors
from mm2.node.checkpoint.group_status_store import GroupStatusStore, Refused
from mm2.node.common.current_error import CurrentError

log = logging.getLogger(__name__)

ANSWERED_WITHIN_MS = 10_000
"""Timeout of a request to the target, including retries. Groups without a response wait for the next round."""

ENDS_WITHIN_MS = 1_000
"""Timeout for end offsets: enough to find a leader that has just moved, without waiting for deleted remote topics."""

COMMITS_AT_ONCE = 10
"""Maximum number of groups whose commits are in flight; each commit is one batch in the broker's offsets topic."""

STEP_PARTITIONS = 500
"""Partitions processed before yielding to the event loop: about 2 ms."""


class GroupOffsetSync:
    """Commits the offsets of checkpoints for idle groups on the target.

    Invariants: (A) the offsets of a group that has members on the target are not changed; if a member joins in between,
    the broker rejects the commit. (B) No offset moves backwards or past the end of the remote partition. (C) An error
    of one group is reported for that group and does not affect others.
    """

    def __init__(
        self,
        settings: FlowSettings,
        target: Cluster,
        checkpoints: Checkpoints,
        statuses: GroupStatusStore,
        chosen: Callable[[], Iterable[str]],
    ) -> None:
        """``chosen`` returns the groups to sync now."""
        self._interval_s = settings.checkpoint.sync_group_offsets_interval_seconds
        self._target = target
        self._checkpoints = checkpoints
        self._statuses = statuses
        self._chosen = chosen
        self.error = CurrentError(log, settings.flow)
        self.errors = GroupErrors(settings.flow, "cannot sync the offsets of {} to the target")

    async def run(self) -> None:
        """Run a round at every interval, the first after one interval, as in Java."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + self._interval_s, loop.time())
            await asyncio.sleep(due - loop.time())
            try:
                await self._round()
            except ClusterError as error:
                self.error.report(f"cannot sync group offsets: {error}", error)
            else:
                self.error.clear()

    async def _round(self) -> None:
        await self._target.metadata(())  # reports an unavailable cluster immediately, not after a timeout
        groups = sorted(group for group in self._chosen() if self._checkpoints.of_group(group))
        states = await group_states(self._target, groups, timeout_ms=ANSWERED_WITHIN_MS)
        await self.errors.round(groups, self._target, lambda some: self._sync(some, states))

    async def _sync(self, groups: Sequence[str], states: Mapping[str, str | ClusterError | None]) -> None:
        targets = await self._targets(groups, states)
        checkpoints = {group: dict(self._checkpoints.of_group(group)) for group in targets}
        ends = await self._ends(targets, checkpoints)
        decided: dict[str, dict[TopicPartition, Decision | Refused]] = {}
        partitions = 0
        for group, target in targets.items():
            decided[group] = {**decide(checkpoints[group], target, ends)}
            partitions += len(decided[group])
            if partitions >= STEP_PARTITIONS:
                partitions = 0
                await asyncio.sleep(0)
        ours = set(self._chosen())  # a group can have moved to another node, whose newer commits must not be undone
        to_write = [
            group
            for group in targets
            if group in ours and any(isinstance(one, Write) for one in decided[group].values())
        ]
        for start in range(0, len(to_write), COMMITS_AT_ONCE):
            some = to_write[start : start + COMMITS_AT_ONCE]
            for group, active in zip(
                some, await asyncio.gather(*(self._commit(group, decided[group]) for group in some)), strict=True
            ):
                if active is not None:
                    targets[group] = active
                    decided[group] = {**decide(checkpoints[group], active, ends)}
        for group, target in targets.items():
            self._statuses.synced(group, target, decided[group])

    async def _targets(
        self, groups: Sequence[str], states: Mapping[str, str | ClusterError | None]
    ) -> dict[str, TargetGroup]:
        """Return the state of each group on the target; report those for which it cannot be read."""
        targets: dict[str, TargetGroup] = {}
        for group in groups:
            state = states[group]
            if isinstance(state, ClusterError):
                self._unknown(group, state)
            else:
                targets[group] = target_group(state)
        idle = [group for group, target in targets.items() if isinstance(target, Idle)]
        found = await committed_offsets(self._target, idle, timeout_ms=ANSWERED_WITHIN_MS)
        for group in idle:
            committed = found[group]
            if isinstance(committed, ClusterError):
                self._unknown(group, committed)
                del targets[group]
            else:
                offsets = {one: position.offset if position else None for one, position in committed.items()}
                targets[group] = Idle(committed=offsets)
        return targets

    async def _ends(
        self, targets: Mapping[str, TargetGroup], checkpoints: Mapping[str, Mapping[TopicPartition, Checkpoint]]
    ) -> dict[TopicPartition, int]:
        """Return the end offsets of those remote partitions in which a group's offset can move forward."""
        wanted: set[TopicPartition] = set()
        for group, target in targets.items():
            if isinstance(target, Active):
                continue
            committed = target.committed if isinstance(target, Idle) else {}
            for partition, checkpoint in checkpoints[group].items():
                current = committed.get(partition)
                if current is None or current < checkpoint.downstream_offset:
                    wanted.add(partition)
        found = await list_offsets(self._target, wanted, OffsetSpec.LATEST, timeout_ms=ENDS_WITHIN_MS)
        return {partition: end for partition, end in found.items() if isinstance(end, int)}

    async def _commit(self, group: str, decided: dict[TopicPartition, Decision | Refused]) -> Active | None:
        """Commit the decided offsets; errors replace decisions. Return `Active` if the group became active."""
        offsets = {
            partition: CommittedOffset(offset=one.offset, metadata=one.metadata)
            for partition, one in decided.items()
            if isinstance(one, Write)
        }
        outcome = await commit_offsets(self._target, group, offsets, timeout_ms=ANSWERED_WITHIN_MS)
        for partition, error in outcome.items():
            if isinstance(error, GroupActive):
                return Active(state="a member joined")
            if error is not None:
                decided[partition] = self._refused(group, error)
        return None

    def _unknown(self, group: str, error: ClusterError) -> None:
        """Report that nothing can be decided for the group."""
        refused = self._refused(group, error)
        self._statuses.synced(group, None, dict.fromkeys(self._checkpoints.of_group(group), refused))

    def _refused(self, group: str, error: ClusterError) -> Refused:
        self.errors.report(group, str(error))
        return Refused(words=str(error))
