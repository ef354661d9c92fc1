"""One look after the other at the offsets that the source's groups have committed, and the checkpoints that follow."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from mm2.core.checkpoints import Checkpoints, CommittedOffset, Emit, Outcome
from mm2.core.formats import Checkpoint, FormatError
from mm2.core.names import Flow, TopicPartition
from mm2.core.offset_translation import Translation
from mm2.core.plugins import PluginError
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups import committed_offsets
from mm2.node.group_book import GroupBook

log = logging.getLogger(__name__)

ANSWERED_WITHIN_MS = 10_000
"""One question to the source with all its retries. Groups that gave no answer by then wait for the next round."""

GROUPS_AT_ONCE = 200
"""Read, judged and written together: at 100 partitions each, a tenth of a second of work in small steps."""

STEP_PARTITIONS = 500
"""Partitions judged before the event loop gets its turn: about 5 ms."""

Committed = Mapping[TopicPartition, CommittedOffset | None]


class CheckpointRounds:
    """``doing`` is what a round is at, for the sentence when that goes wrong. ``failed``: the groups that the last
    round could do nothing for, and why."""

    def __init__(
        self,
        flow: Flow,
        source: Cluster,
        checkpoints: Checkpoints,
        book: GroupBook,
        *,
        translate: Callable[[TopicPartition, int], Translation],
        latest: Callable[[TopicPartition, int], int | None],
        write: Callable[[Sequence[Checkpoint], int], Awaitable[None]],
        ours: Callable[[str], bool],
    ) -> None:
        """``ours``: whether a group is still to be looked at; another node may get it at any time."""
        self._flow = flow
        self._source = source
        self._checkpoints = checkpoints
        self._book = book
        self._translate = translate
        self._latest = latest
        self._write = write
        self._ours = ours
        self.doing = ""
        self.failed: Mapping[str, str] = {}

    async def round(self, groups: Sequence[str]) -> None:
        """Look at every group once. Raises ClusterError where a cluster as a whole is the trouble."""
        failed: dict[str, str] = {}
        await self._ask_source()
        for start in range(0, len(groups), GROUPS_AT_ONCE):
            failures = len(failed)
            await self._chunk([one for one in groups[start : start + GROUPS_AT_ONCE] if self._ours(one)], failed)
            if len(failed) > failures:
                await self._ask_source()
        new = {group: words for group, words in failed.items() if group not in self.failed}
        if new:
            log.warning("%s: %s", self._flow, about_some("the offsets of {} are not translated", new))
        self.failed = failed

    async def _ask_source(self) -> None:
        """A cluster that is away is said at once, not after a deadline of trying for each chunk of groups."""
        self.doing = "read the groups' offsets"
        await self._source.metadata(())

    async def _chunk(self, groups: Sequence[str], failed: dict[str, str]) -> None:
        self.doing = "read the groups' offsets"
        read_at_ms = time.time_ns() // 1_000_000
        answers = await committed_offsets(self._source, groups, timeout_ms=ANSWERED_WITHIN_MS)
        judged: dict[str, tuple[Committed, Mapping[TopicPartition, Outcome]]] = {}
        partitions = 0
        for group, committed in answers.items():
            try:
                judged[group] = self._judge(group, committed)
            except (ClusterError, PluginError, FormatError) as error:
                failed[group] = str(error)
                self._book.failed(group, str(error))
                continue
            partitions += len(judged[group][1])
            if partitions >= STEP_PARTITIONS:
                partitions = 0
                await asyncio.sleep(0)
        self.doing = "write checkpoints"
        judged = {group: found for group, found in judged.items() if self._ours(group)}
        outcomes = [outcome for _, found in judged.values() for outcome in found.values()]
        try:
            await self._write([one.checkpoint for one in outcomes if isinstance(one, Emit)], read_at_ms)
        finally:
            for group, (offsets, found) in judged.items():
                self._book.judged(group, offsets, found, dict(self._checkpoints.of_group(group)))

    def _judge(
        self, group: str, committed: Committed | ClusterError
    ) -> tuple[Committed, Mapping[TopicPartition, Outcome]]:
        """Raises what concerns this group only: ClusterError, PluginError of a user's filter, FormatError."""
        if isinstance(committed, ClusterError):
            raise committed
        outcomes = self._checkpoints.judge(group, committed, self._translate, self._latest)
        for outcome in outcomes.values():
            if isinstance(outcome, Emit) and outcome.checkpoint.metadata:
                outcome.checkpoint.value()  # metadata may be longer than a checkpoint can take
        return committed, outcomes


def about_some(sentence: str, groups: Mapping[str, str]) -> str:
    """``sentence`` about one or many groups in its place ``{}``, with the first one's reason."""
    first, words = next(iter(groups.items()))
    others = f" and {len(groups) - 1} more" if len(groups) > 1 else ""
    return f"{sentence.format(f'group {first}{others}')}: {words}"
