"""Where each consumer group of a flow would go on in the target, put together from what the two clusters tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mm2.core.checkpoints import (
    Checkpoints,
    CommittedOffset,
    Emit,
    HeldBack,
    NotCommitted,
    Outcome,
    TopicNotSelected,
    Unchanged,
    Untranslated,
    remote_partition,
)
from mm2.core.formats import Checkpoint
from mm2.core.names import Flow, TopicPartition
from mm2.core.offset_translation import Translation
from mm2.core.policies import ReplicationPolicy

Committed = Mapping[TopicPartition, CommittedOffset | None]


class Answer(StrEnum):
    """How good a translated offset is."""

    EXACT = "exact"
    CONSERVATIVE = "conservative"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """A group's last checkpoint of a remote partition, and when it was written (epoch ms)."""

    checkpoint: Checkpoint
    written_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPosition:
    """One partition of a group. ``partition`` is the source's, ``remote`` the target's.

    ``translated`` is None with Answer.NONE, and ``reason`` says why. ``read_again``: records of at most so many source
    offsets would be read a second time; None: not known. ``target_offset``: what the group has committed on the target.
    """

    partition: TopicPartition
    remote: TopicPartition
    source_offset: int | None
    translated: int | None
    answer: Answer
    read_again: int | None
    reason: str | None
    checkpoint: StoredCheckpoint | None
    target_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
    """One group. The states are Kafka's words. ``source_state`` None: the source has no such group, or does not tell;
    ``target_state`` None: the target has no such group. ``filtered``: why no checkpoints are written for it.
    ``from_checkpoints``: its positions on the source are those of its last checkpoints, as the source cannot be asked
    or has forgotten them."""

    group: str
    source_state: str | None
    target_state: str | None
    filtered: str | None
    from_checkpoints: bool
    partitions: tuple[PartitionPosition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRules:
    """What of a flow's settings decides. ``refusal``: why a topic is not selected, in a sentence."""

    flow: Flow
    policy: ReplicationPolicy
    selects: Callable[[str], bool]
    refusal: Callable[[str], str | None]


class CheckpointsByGroup:
    """The last checkpoints of a flow, as read from their topic in its order."""

    def __init__(self, rules: FlowRules) -> None:
        self._rules = rules
        self._judge = Checkpoints(flow=rules.flow, policy=rules.policy, selects=rules.selects)
        self._last: dict[str, dict[TopicPartition, StoredCheckpoint]] = {}

    def take(self, checkpoint: Checkpoint, written_ms: int) -> None:
        """The next record of the topic."""
        self._judge.remember(checkpoint)
        stored = StoredCheckpoint(checkpoint=checkpoint, written_ms=written_ms)
        self._last.setdefault(checkpoint.group, {})[checkpoint.topic_partition] = stored

    @property
    def groups(self) -> frozenset[str]:
        """Those that have a checkpoint."""
        return frozenset(self._last)

    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset | None]:
        """The group's positions on the source when its last checkpoints were written."""
        return {
            source_partition(remote, flow=self._rules.flow, policy=self._rules.policy): CommittedOffset(
                offset=stored.checkpoint.upstream_offset, metadata=stored.checkpoint.metadata
            )
            for remote, stored in self._last.get(group, {}).items()
        }

    def positions(
        self,
        group: str,
        committed: Committed,
        translate: Callable[[TopicPartition, int], Translation],
        on_target: Committed,
        latest: Callable[[TopicPartition, int], int | None] = lambda partition, offset: None,
    ) -> tuple[PartitionPosition, ...]:
        """Each partition the group has ``committed`` on the source, sorted. What is translated, and why not, is decided
        as the node does it; where it has no answer an earlier checkpoint may still be one. ``latest``: as for
        `Checkpoints.judge`."""
        outcomes = self._judge.judge(group, committed, translate, latest)
        return tuple(
            self._position(group, partition, committed[partition], outcome, on_target)
            for partition, outcome in sorted(outcomes.items())
        )

    def _position(
        self,
        group: str,
        partition: TopicPartition,
        position: CommittedOffset | None,
        outcome: Outcome,
        on_target: Committed,
    ) -> PartitionPosition:
        remote = remote_partition(partition, flow=self._rules.flow, policy=self._rules.policy)
        checkpoint, there = self._last.get(group, {}).get(remote), on_target.get(remote)
        offset = None if position is None or position.offset < 0 else position.offset
        counts = remote in self._judge.of_group(group)  # it was forgotten where it would miss records
        answer = self._answer(partition, offset, outcome, checkpoint if counts else None)
        return PartitionPosition(
            partition=partition,
            remote=remote,
            source_offset=offset,
            translated=answer.offset,
            answer=answer.quality,
            read_again=answer.read_again,
            reason=answer.reason,
            checkpoint=checkpoint,
            target_offset=None if there is None else there.offset,
        )

    def _answer(
        self, partition: TopicPartition, offset: int | None, outcome: Outcome, stored: StoredCheckpoint | None
    ) -> _Answer:
        match outcome:
            case Emit(translated=translated) | Unchanged(translated=translated):
                quality = Answer.EXACT if translated.exact else Answer.CONSERVATIVE
                return _Answer(offset=translated.offset, quality=quality, read_again=translated.behind)
            case HeldBack(checkpoint=checkpoint):
                return _Answer(offset=checkpoint.downstream_offset, quality=Answer.CONSERVATIVE)
            case TopicNotSelected():
                return _Answer(reason=self._rules.refusal(partition.topic) or str(outcome))
            case NotCommitted():
                return _Answer(reason=str(outcome))
            case Untranslated(reason=reason):
                return _without_translation(str(reason), offset, stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    offset: int | None = None
    quality: Answer = Answer.NONE
    read_again: int | None = None
    reason: str | None = None


def _without_translation(reason: str, offset: int | None, stored: StoredCheckpoint | None) -> _Answer:
    """A checkpoint at or before the position misses nothing, as little as when it was written. One after it would."""
    if stored is None or offset is None:
        return _Answer(reason=reason)
    checkpoint = stored.checkpoint
    if checkpoint.upstream_offset <= offset:
        return _Answer(offset=checkpoint.downstream_offset, quality=Answer.CONSERVATIVE)
    later = f"the last checkpoint is for source offset {checkpoint.upstream_offset} and would miss records before it"
    return _Answer(reason=f"{reason}; {later}")


def source_partition(remote: TopicPartition, *, flow: Flow, policy: ReplicationPolicy) -> TopicPartition:
    """The source's partition that ``remote`` is a checkpoint of: `remote_partition` the other way round."""
    upstream = policy.upstream_topic(remote.topic) if policy.topic_source(remote.topic) == flow.source else None
    topic = upstream if upstream is not None else policy.format_remote_topic(flow.target, remote.topic)
    return TopicPartition(topic, remote.partition)
