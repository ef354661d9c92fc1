"""Which checkpoints to emit: where the source's consumer groups would go on in the target (mm2-compat §4.1, §4.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial

from mm2.core.formats import Checkpoint
from mm2.core.names import Flow, TopicPartition
from mm2.core.offset_translation import NoSync, NotReady, TooOld, Translated, Translation
from mm2.core.policies import ReplicationPolicy


class GroupVerdict(Enum):
    """What becomes of a group of the source; the value is the sentence to show."""

    CHECKPOINTED = "its offsets are translated"
    NOT_SELECTED = "groups and groups.exclude do not select it"
    NO_TOPIC = "it has committed offsets for no topic that topics and topics.exclude select"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilter:
    """The choice of groups of one flow. ``selects`` is the group filter (groups, groups.exclude), ``topics`` the topic
    filter (topics, topics.exclude), without the rules about cycles and internal topics, as in Java."""

    selects: Callable[[str], bool]
    topics: Callable[[str], bool]

    def verdict(self, group: str, committed: Iterable[TopicPartition]) -> GroupVerdict:
        """Judge one group by its name and the partitions it has committed offsets for.

        Ask `selects` first, and only for those it names the cluster for their offsets.
        """
        if not self.selects(group):
            return GroupVerdict.NOT_SELECTED
        if not any(self.topics(topic) for topic in {partition.topic for partition in committed}):
            return GroupVerdict.NO_TOPIC
        return GroupVerdict.CHECKPOINTED


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A group's next offset to read of a partition, and the text it committed with it."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """``checkpoint`` is to be written; ``translated`` says how good it is."""

    checkpoint: Checkpoint
    translated: Translated

    def __str__(self) -> str:
        return str(self.translated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """The last ``checkpoint`` leads to the same target offset; ``translated`` says how good that is by now."""

    checkpoint: Checkpoint
    translated: Translated

    def __str__(self) -> str:
        return f"translated to {self.checkpoint.downstream_offset} before"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """The position would translate to ``offset`` now, which is earlier than the last ``checkpoint``, though the group
    did not step back: less is known of it than was. Checkpoints do not go back for that."""

    checkpoint: Checkpoint
    offset: int

    def __str__(self) -> str:
        return (
            f"translated to {self.checkpoint.downstream_offset} before;"
            f" what is known now would lead back to {self.offset}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Untranslated:
    """The position cannot be translated, and why."""

    reason: TooOld | NoSync | NotReady

    def __str__(self) -> str:
        return str(self.reason)


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """The group has no offset for the partition (some clients reset it to -1)."""

    def __str__(self) -> str:
        return "the group has committed no offset"


@dataclass(frozen=True, slots=True)
class TopicNotSelected:
    """The topic filter does not select the topic."""

    def __str__(self) -> str:
        return "topics and topics.exclude do not select the topic"


Outcome = Emit | Unchanged | HeldBack | Untranslated | NotCommitted | TopicNotSelected


class Checkpoints:
    """The last checkpoint of each group and remote partition of a flow, and what is to follow it.

    Loaded from the checkpoints topic before the first judgement: then checkpoints stay in order over a restart also
    where offset syncs have become fewer since.

    Invariants:
    A. The target offsets of a group's checkpoints for a partition rise, but where the group stepped back on the source,
       and where the last one is known to miss records by now: the remote topic was made anew, or lost its end.
    B. A checkpoint that changes nothing is not written again.
    """

    def __init__(self, *, flow: Flow, policy: ReplicationPolicy, selects: Callable[[str], bool]) -> None:
        """``selects`` is the topic filter, asked by source topic."""
        self._flow = flow
        self._policy = policy
        self._selects = selects
        self._last: defaultdict[str, dict[TopicPartition, Checkpoint]] = defaultdict(dict)

    def remember(self, checkpoint: Checkpoint) -> None:
        """It was read from the topic, in its order, or has been written to it."""
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
        """What becomes of each partition the group has committed on the source; as a text, in a sentence for people.

        ``latest``: the last target offset from which a source position misses nothing, None where nobody knows. A last
        checkpoint beyond it is forgotten. The caller writes what is to be emitted, and then has it remembered.
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
        """The topic's name on the target; None if it is not selected."""
        return remote_topic(topic, flow=self._flow, policy=self._policy) if self._selects(topic) else None


def remote_partition(partition: TopicPartition, *, flow: Flow, policy: ReplicationPolicy) -> TopicPartition:
    """Where the source's ``partition`` is on the target. A topic that came from there goes home under its own name."""
    return TopicPartition(remote_topic(partition.topic, flow=flow, policy=policy), partition.partition)


def remote_topic(topic: str, *, flow: Flow, policy: ReplicationPolicy) -> str:
    """The name of the source's ``topic`` on the target, as for `remote_partition`."""
    if policy.topic_source(topic) == flow.target:
        return policy.original_topic(topic)
    return policy.format_remote_topic(flow.source, topic)


def _is_too_late(last: Checkpoint, translation: Translation, latest: Callable[[], int | None]) -> bool:
    """Whether the group would miss records if it went on from its last checkpoint: it points into a remote topic that
    is gone, or the group stepped back to where nothing is translated."""
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
        return Unchanged(checkpoint=last, translated=translated)
    return HeldBack(checkpoint=last, offset=translated.offset)
