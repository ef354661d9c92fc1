"""Where each consumer group of a flow would resume on the target, from what was read from the two clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import (
    Checkpoints,
    CheckpointUnchanged,
    CommittedOffset,
    Emit,
    HeldBack,
    NotCommitted,
    Outcome,
    TopicNotSelected,
    Untranslated,
    remote_partition,
)
from mm2.core.offsets.offset_translation import Translation
from mm2.core.policies import ReplicationPolicy
from mm2.core.wire.formats import Checkpoint

Committed = Mapping[TopicPartition, CommittedOffset | None]


class Answer(StrEnum):
    """Precision of a translated offset."""

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

    ``translated`` is None with Answer.NONE, for ``reason``. ``read_again``: the maximum number of source offsets whose
    records would be read a second time; None: unknown. ``target_offset``: what the group has committed on the target.
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
    """One group. The states are Kafka's. ``source_state`` None: the source has no such group, or is unreachable;
    ``target_state`` None: the target has no such group. ``filtered``: why no checkpoints are written for it.
    ``from_checkpoints``: its positions on the source are those of its last checkpoints, because the source is
    unreachable or has no offsets of the group any more."""

    group: str
    source_state: str | None
    target_state: str | None
    filtered: str | None
    from_checkpoints: bool
    partitions: tuple[PartitionPosition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRules:
    """The relevant settings of a flow. ``refusal`` returns why a topic is not selected."""

    aliases: Flow
    policy: ReplicationPolicy
    selects: Callable[[str], bool]
    refusal: Callable[[str], str | None]


class CheckpointsByGroup:
    """The last checkpoints of a flow, read from their topic in order."""

    def __init__(self, rules: FlowRules) -> None:
        self._rules = rules
        self._judge = Checkpoints(aliases=rules.aliases, policy=rules.policy, selects=rules.selects)
        self._last: dict[str, dict[TopicPartition, StoredCheckpoint]] = {}

    def take(self, checkpoint: Checkpoint, written_ms: int) -> None:
        """Process the next record of the topic."""
        self._judge.remember(checkpoint)
        stored = StoredCheckpoint(checkpoint=checkpoint, written_ms=written_ms)
        self._last.setdefault(checkpoint.group, {})[checkpoint.topic_partition] = stored

    @property
    def groups(self) -> frozenset[str]:
        """Groups that have a checkpoint."""
        return frozenset(self._last)

    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the group's positions on the source when its last checkpoints were written."""
        return {
            source_partition(remote, aliases=self._rules.aliases, policy=self._rules.policy): CommittedOffset(
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
        """Return each partition that the group has ``committed`` on the source, sorted. Offsets are translated as in
        the node; if that is not possible, an earlier checkpoint may apply. ``latest``: as for `Checkpoints.judge`."""
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
        remote = remote_partition(partition, aliases=self._rules.aliases, policy=self._rules.policy)
        checkpoint, there = self._last.get(group, {}).get(remote), on_target.get(remote)
        offset = None if position is None or position.offset < 0 else position.offset
        counts = remote in self._judge.of_group(group)  # it was discarded if it would skip records
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
            case Emit(translated=translated) | CheckpointUnchanged(translated=translated):
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
    """Fall back to the last checkpoint. One at or before the position skips no records; a later one would."""
    if stored is None or offset is None:
        return _Answer(reason=reason)
    checkpoint = stored.checkpoint
    if checkpoint.upstream_offset <= offset:
        return _Answer(offset=checkpoint.downstream_offset, quality=Answer.CONSERVATIVE)
    later = f"the last checkpoint is for source offset {checkpoint.upstream_offset} and would skip records before it"
    return _Answer(reason=f"{reason}; {later}")


def source_partition(remote: TopicPartition, *, aliases: Flow, policy: ReplicationPolicy) -> TopicPartition:
    """Return the source partition of the checkpoint of ``remote``: the inverse of `remote_partition`."""
    upstream = policy.upstream_topic(remote.topic) if policy.topic_source(remote.topic) == aliases.source else None
    topic = upstream if upstream is not None else policy.format_remote_topic(aliases.target, remote.topic)
    return TopicPartition(topic, remote.partition)
