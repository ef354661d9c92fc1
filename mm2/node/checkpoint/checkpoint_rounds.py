"""Rounds that read the offsets committed by the source's groups, translate them, and write checkpoints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import Checkpoints, CommittedOffset, Emit, Outcome
from mm2.core.offsets.offset_translation import Translation
from mm2.core.plugins import PluginError
from mm2.core.wire.formats import Checkpoint, FormatError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.groups import ReadCommitted, committed_offsets
from mm2.node.checkpoint.group_errors import GroupErrors
from mm2.node.checkpoint.group_status_store import GroupStatusStore

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
        write: Callable[[Sequence[Checkpoint], int], Awaitable[None]],
        is_own: Callable[[str], bool],
        read_committed: ReadCommitted = _READ_COMMITTED,
    ) -> None:
        """``is_own`` returns whether a group is still assigned to this node, which can change at any time."""
        self._read_committed = read_committed
        self._source = source
        self._checkpoints = checkpoints
        self._statuses = statuses
        self._translate = translate
        self._latest = latest
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
                judged[group] = self._judge(group, committed)
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

    def _judge(
        self, group: str, committed: Committed | ClusterError
    ) -> tuple[Committed, Mapping[TopicPartition, Outcome]]:
        """Decide about each partition of a group.

        Raises errors that concern only this group: ClusterError, PluginError of a custom filter, FormatError.
        """
        if isinstance(committed, ClusterError):
            raise committed
        outcomes = self._checkpoints.judge(group, committed, self._translate, self._latest)
        for outcome in outcomes.values():
            if isinstance(outcome, Emit) and outcome.checkpoint.metadata:
                outcome.checkpoint.value()  # raises if the metadata is too long for a checkpoint
        return committed, outcomes
