"""Checkpoints to emit: the positions of the source's consumer groups on the target (Java: MirrorCheckpointTask)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.offset_translation import NoSync, NotReady, TooOld, Translated, Translation
from mm2.core.policies import ReplicationPolicy
from mm2.core.wire.formats import Checkpoint


class GroupVerdict(Enum):
    """Whether a group of the source gets checkpoints; the value is the message to show."""

    CHECKPOINTED = "its offsets are translated"
    NOT_SELECTED = "groups and groups.exclude do not select it"
    NO_TOPIC = "it has no committed offsets for a topic that topics and topics.exclude select"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSelection:
    """The groups that one flow checkpoints.

    ``selects`` is the group filter (groups, groups.exclude), ``topics`` the topic filter (topics, topics.exclude),
    without the rules about cycles and internal topics, as in Java.
    """

    selects: Callable[[str], bool]
    topics: Callable[[str], bool]

    def verdict(self, group: str, committed: Iterable[TopicPartition]) -> GroupVerdict:
        """Return the verdict on a group from its name and the partitions it has committed offsets for.

        Call `selects` first and fetch committed offsets only for the groups it selects.
        """
        if not self.selects(group):
            return GroupVerdict.NOT_SELECTED
        if not any(self.topics(topic) for topic in {partition.topic for partition in committed}):
            return GroupVerdict.NO_TOPIC
        return GroupVerdict.CHECKPOINTED


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A group's committed offset (the next one to read) of a partition, and the metadata committed with it."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """Write ``checkpoint``; ``translated`` is the translation it is based on."""

    checkpoint: Checkpoint
    translated: Translated

    def __str__(self) -> str:
        return str(self.translated)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointUnchanged:
    """The last ``checkpoint`` has the same target offset; ``translated`` is the current translation."""

    checkpoint: Checkpoint
    translated: Translated

    def __str__(self) -> str:
        return f"already translated to {self.checkpoint.downstream_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """The position now translates to ``offset``, before the last ``checkpoint``, although the group did not step back:
    fewer offset syncs are available than before. The last checkpoint is kept, because checkpoints do not go back."""

    checkpoint: Checkpoint
    offset: int

    def __str__(self) -> str:
        return (
            f"already translated to {self.checkpoint.downstream_offset};"
            f" ignoring the lower translation {self.offset} of the offset syncs available now"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Untranslated:
    """The position cannot be translated because of ``reason``."""

    reason: TooOld | NoSync | NotReady

    def __str__(self) -> str:
        return str(self.reason)


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """The group has no committed offset for the partition (some clients reset it to -1)."""

    def __str__(self) -> str:
        return "the group has committed no offset"


@dataclass(frozen=True, slots=True)
class TopicNotSelected:
    """The topic filter does not select the topic."""

    def __str__(self) -> str:
        return "topics and topics.exclude do not select the topic"


Outcome = Emit | CheckpointUnchanged | HeldBack | Untranslated | NotCommitted | TopicNotSelected


class Checkpoints:
    """The last checkpoint of each group and remote partition of a flow, and the decision on the next one.

    Load it from the checkpoints topic before the first call of `judge`, so that checkpoints stay in order across a
    restart even if fewer offset syncs are available afterwards.

    Invariants:
    A. The target offsets of a group's checkpoints for a partition increase, unless the group stepped back on the
       source, or the last checkpoint is known to miss records because the remote topic was recreated or truncated.
    B. An unchanged checkpoint is not written again.
    """

    def __init__(self, *, aliases: Flow, policy: ReplicationPolicy, selects: Callable[[str], bool]) -> None:
        """``aliases`` are the clusters' in topic names, ``selects`` is the topic filter, called with source topics."""
        self._aliases = aliases
        self._policy = policy
        self._selects = selects
        self._last: defaultdict[str, dict[TopicPartition, Checkpoint]] = defaultdict(dict)

    def remember(self, checkpoint: Checkpoint) -> None:
        """Record a checkpoint that was read from the topic, in its order, or was written to it."""
        self._last[checkpoint.group][checkpoint.topic_partition] = checkpoint

    @property
    def groups(self) -> tuple[str, ...]:
        """Every group that has checkpoints."""
        return tuple(self._last)

    def of_group(self, group: str) -> Mapping[TopicPartition, Checkpoint]:
        """The group's last checkpoints by remote partition."""
        return self._last.get(group, {})

    def judge(
        self,
        group: str,
        committed: Mapping[TopicPartition, CommittedOffset | None],
        translate: Callable[[TopicPartition, int], Translation],
        latest: Callable[[TopicPartition, int], int | None] = lambda partition, offset: None,
    ) -> dict[TopicPartition, Outcome]:
        """Return the outcome for each partition the group has committed on the source; ``str`` of it is a message.

        ``latest``: the last target offset from which a source position misses no record, None if unknown. A last
        checkpoint beyond it is discarded. The caller writes the checkpoints to emit, then calls `remember`.
        """
        remotes = {topic: self._remote(topic) for topic in {partition.topic for partition in committed}}
        last = self.of_group(group)
        outcomes: dict[TopicPartition, Outcome] = {}
        for partition, position in committed.items():
            topic = remotes[partition.topic]
            if topic is None:
                outcomes[partition] = TopicNotSelected()
            elif position is None or position.offset < 0:
                outcomes[partition] = NotCommitted()
            else:
                remote = TopicPartition(topic, partition.partition)
                translation = translate(partition, position.offset)
                before = last.get(remote)
                if before is not None and _is_too_late(
                    before, translation, partial(latest, partition, position.offset)
                ):
                    del self._last[group][remote]
                    before = None
                if isinstance(translation, Translated):
                    outcomes[partition] = _follow(before, group, remote, position, translation)
                else:
                    outcomes[partition] = Untranslated(reason=translation)
        return outcomes

    def _remote(self, topic: str) -> str | None:
        """Return the topic's name on the target; None if the topic is not selected."""
        return remote_topic(topic, aliases=self._aliases, policy=self._policy) if self._selects(topic) else None


def remote_partition(partition: TopicPartition, *, aliases: Flow, policy: ReplicationPolicy) -> TopicPartition:
    """Return the partition on the target of the source's ``partition``. ``aliases``: of the clusters in topic names.

    A topic that was replicated from the target has its original name there.
    """
    return TopicPartition(remote_topic(partition.topic, aliases=aliases, policy=policy), partition.partition)


def remote_topic(topic: str, *, aliases: Flow, policy: ReplicationPolicy) -> str:
    """Return the name of the source's ``topic`` on the target, as for `remote_partition`."""
    if policy.topic_source(topic) == aliases.target:
        return policy.original_topic(topic)
    return policy.format_remote_topic(aliases.source, topic)


def _is_too_late(last: Checkpoint, translation: Translation, latest: Callable[[], int | None]) -> bool:
    """Return whether the group would miss records if it continued from its last checkpoint.

    This happens if the checkpoint refers to a deleted remote topic, or if the group stepped back to a position that
    cannot be translated.
    """
    if isinstance(translation, Translated) and translation.offset >= last.downstream_offset:
        return False
    limit = latest()
    return limit is not None and limit < last.downstream_offset


def _follow(
    last: Checkpoint | None, group: str, remote: TopicPartition, position: CommittedOffset, translated: Translated
) -> Outcome:
    if last is None or position.offset < last.upstream_offset or translated.offset > last.downstream_offset:
        checkpoint = Checkpoint(
            group=group,
            topic_partition=remote,
            upstream_offset=position.offset,
            downstream_offset=translated.offset,
            metadata=position.metadata,
        )
        return Emit(checkpoint=checkpoint, translated=translated)
    if translated.offset == last.downstream_offset:
        return CheckpointUnchanged(checkpoint=last, translated=translated)
    return HeldBack(checkpoint=last, offset=translated.offset)
