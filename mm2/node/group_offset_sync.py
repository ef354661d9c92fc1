"""Group offset sync: commits translated offsets for groups that are idle on the target (mm2-compat §4.5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from mm2.config.settings import FlowSettings
from mm2.core.checkpoints import Checkpoints, CommittedOffset
from mm2.core.formats import Checkpoint
from mm2.core.group_offsets import Active, Decision, Idle, TargetGroup, Write, decide, target_group
from mm2.core.names import TopicPartition
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups import GroupActive, commit_offsets, committed_offsets, group_states
from mm2.kafka.offsets import OffsetSpec, list_offsets
from mm2.node.checkpoint_rounds import about_some
from mm2.node.group_book import GroupBook, Refused
from mm2.node.trouble import troubled

log = logging.getLogger(__name__)

ANSWERED_WITHIN_MS = 10_000
"""One question to the target with all its retries. What is not known by then waits for the next round."""

ENDS_WITHIN_MS = 1_000
"""Time to find a leader that has just moved. Remote topics that are gone have none, and a round does not wait for
them."""

GROUPS_AT_ONCE = 200
"""Read, decided and committed together: at 100 partitions each, a tenth of a second of work in small steps."""

COMMITS_AT_ONCE = 10
"""Groups whose offsets are on their way at the same time; each commit is one batch of the broker's own log."""

STEP_PARTITIONS = 500
"""Partitions decided before the event loop gets its turn: about 2 ms."""


class GroupOffsetSync:
    """Invariants: (A) a group that has members on the target keeps its position: the broker refuses the commit where
    one came in since we looked. (B) No position is set back, none is set past the end of the remote partition.
    (C) What goes wrong with one group is told with that group and stops no other.
    """

    def __init__(
        self,
        settings: FlowSettings,
        target: Cluster,
        checkpoints: Checkpoints,
        book: GroupBook,
        chosen: Callable[[], Iterable[str]],
    ) -> None:
        """``chosen``: the groups to look after now."""
        self._flow = settings.flow
        self._interval_s = settings.checkpoint.sync_group_offsets_interval_seconds
        self._target = target
        self._checkpoints = checkpoints
        self._book = book
        self._chosen = chosen
        self._refusals: dict[str, str] = {}
        self._refusals_now: dict[str, str] = {}
        self.trouble: str | None = None

    @property
    def refusals(self) -> Mapping[str, str]:
        """Groups whose offsets could not be written in the last round, and why."""
        return self._refusals

    async def run(self) -> None:
        """A round every interval, the first after one interval, as in Java."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + self._interval_s, loop.time())
            await asyncio.sleep(due - loop.time())
            try:
                await self._round()
            except ClusterError as error:
                self.trouble = troubled(log, self._flow, self.trouble, f"sync group offsets: {error}")
            else:
                self.trouble = None

    async def _round(self) -> None:
        await self._target.metadata(())  # a cluster that is away is said at once, not after a deadline of trying
        groups = sorted(group for group in self._chosen() if self._checkpoints.of_group(group))
        self._refusals_now = {}
        states = await group_states(self._target, groups, timeout_ms=ANSWERED_WITHIN_MS)
        for start in range(0, len(groups), GROUPS_AT_ONCE):
            refusals = len(self._refusals_now)
            await self._sync(groups[start : start + GROUPS_AT_ONCE], states)
            if len(self._refusals_now) > refusals:  # the other chunks would wait as long for a cluster that is away
                await self._target.metadata(())
        new = {group: words for group, words in self._refusals_now.items() if group not in self._refusals}
        if new:  # one line for all of them: where a coordinator is away that may be thousands
            log.warning("%s: %s", self._flow, about_some("the offsets of {} are not synced to the target", new))
        self._refusals = self._refusals_now

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
        ours = set(self._chosen())  # a group may have gone to another node, whose commits ours would set back
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
            self._book.synced(group, target, decided[group])

    async def _targets(
        self, groups: Sequence[str], states: Mapping[str, str | ClusterError | None]
    ) -> dict[str, TargetGroup]:
        """How each group stands on the target; those of which that is not known are left out, and say why."""
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
        """The ends of the remote partitions that a group may be moved in; of the others nobody asks."""
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
        """Write what was decided; a refusal takes the decision's place. An `Active` when the group turned out to be."""
        offsets = {
            partition: CommittedOffset(offset=one.offset, metadata=one.metadata)
            for partition, one in decided.items()
            if isinstance(one, Write)
        }
        outcome = await commit_offsets(self._target, group, offsets, timeout_ms=ANSWERED_WITHIN_MS)
        for partition, error in outcome.items():
            if isinstance(error, GroupActive):
                return Active(state="a member came in")
            if error is not None:
                decided[partition] = self._refused(group, error)
        return None

    def _unknown(self, group: str, error: ClusterError) -> None:
        """Nothing can be decided for the group."""
        refused = self._refused(group, error)
        self._book.synced(group, None, dict.fromkeys(self._checkpoints.of_group(group), refused))

    def _refused(self, group: str, error: ClusterError) -> Refused:
        self._refusals_now[group] = str(error)
        return Refused(words=str(error))
