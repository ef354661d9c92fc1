"""The status of each consumer group of the source: where it would resume on the target, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.checkpoints import (
    CheckpointUnchanged,
    CommittedOffset,
    Emit,
    HeldBack,
    NotCommitted,
    Outcome,
    TopicNotSelected,
    Untranslated,
)
from mm2.core.offsets.group_offsets import Active, Decision, Idle, TargetGroup
from mm2.core.offsets.offset_translation import NotReady, TooOld, Translated
from mm2.core.wire.formats import Checkpoint
from mm2.node.status.status_model import CheckpointStatus, GroupPartitionStatus, GroupState, GroupStatus

_MANY = 3
"""Maximum number of reasons in the message about a group; its partitions have all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The target rejected the offset of a group."""

    words: str

    def __str__(self) -> str:
        return f"not committed: {self.words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The last known state of a group. Immutable, as other threads read it."""

    name: str
    source_state: str | None
    filtered: str | None = None
    error: str | None = None
    looked_at: bool = False
    committed: Mapping[TopicPartition, CommittedOffset | None] = field(default_factory=dict)
    outcomes: Mapping[TopicPartition, Outcome] = field(default_factory=dict)
    checkpoints: Mapping[TopicPartition, Checkpoint] = field(default_factory=dict)
    target: TargetGroup | None = None
    decisions: Mapping[TopicPartition, Decision | Refused] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteName:
    """A topic's name on the target, or a message why it is not replicated (``refusal``)."""

    topic: str | None = None
    refusal: str = ""


class GroupStatusStore:
    """The groups of the source; iteration yields their current status, ordered by name, from any thread.

    Messages are built during iteration, so that a round over 100,000 partitions need not build them. Custom filters and
    policies are called by the rounds and not during iteration, because they expect to be called on the event loop.
    """

    def __init__(self, *, place: Callable[[str], RemoteName], syncs: bool) -> None:
        """``place`` returns a source topic's name on the target. ``syncs``: group offsets are synced to the target."""
        self._place = place
        self._syncs = syncs
        self._groups: dict[str, _Group] = {}
        self._places: dict[str, RemoteName] = {}
        self._placed: set[str] = set()  # names determined since the groups were last listed

    def keep(self, listed: Mapping[str, str | None]) -> None:
        """Update the groups of the source with their states there; forget all others."""
        if self._placed:  # drop the names that no round has needed; keep the others until they are determined again
            self._places = {topic: self._places[topic] for topic in self._placed}
            self._placed = set()  # custom filters and policies can return a different result later
        for name in self._groups.keys() - listed.keys():
            del self._groups[name]
        for name, state in listed.items():
            known = self._groups.get(name)
            if known is None:
                self._groups[name] = _Group(name=name, source_state=state)
            elif known.source_state != state:
                self._groups[name] = replace(known, source_state=state)

    def only(self, shown: Callable[[str], bool]) -> None:
        """Forget all groups for which ``shown`` returns False."""
        self._groups = {name: group for name, group in self._groups.items() if shown(name)}

    def filtered(self, group: str, reason: str) -> None:
        """Record that the group is not selected."""
        if group in self._groups:
            self._groups[group] = _Group(name=group, source_state=self._groups[group].source_state, filtered=reason)

    def _change(self, group: str, **changes: object) -> None:
        if group in self._groups:
            self._groups[group] = replace(self._groups[group], **changes)  # type: ignore[arg-type]

    def selected(self, group: str) -> None:
        """Record that the group is selected."""
        self._change(group, filtered=None)

    def failed(self, group: str, error: str) -> None:
        """Record that the group's offsets could not be read; earlier results are kept."""
        self._change(group, error=error)

    def judged(
        self,
        group: str,
        committed: Mapping[TopicPartition, CommittedOffset | None],
        outcomes: Mapping[TopicPartition, Outcome],
        checkpoints: Mapping[TopicPartition, Checkpoint],
    ) -> None:
        """Record the result of a checkpoint round. The mappings must not be changed afterwards."""
        if group in self._groups:
            for topic in {partition.topic for partition in outcomes} - self._placed:
                self._places[topic] = self._place(topic)
                self._placed.add(topic)
            self._change(
                group,
                error=None,
                looked_at=True,
                committed=committed,
                outcomes=outcomes,
                checkpoints=checkpoints,
            )

    def synced(
        self, group: str, target: TargetGroup | None, decisions: Mapping[TopicPartition, Decision | Refused]
    ) -> None:
        """Record the result of group offset sync; ``target`` is None if the group could not be read."""
        self._change(group, target=target, decisions=decisions)

    def __iter__(self) -> Iterator[GroupStatus]:
        groups = self._groups.copy()  # atomic, as other threads continue to change the mapping
        for name in sorted(groups):
            yield self._status(groups[name])

    def _status(self, group: _Group) -> GroupStatus:
        state, reason = _state(group)
        return GroupStatus(
            group=group.name,
            state=state,
            reason=reason,
            source_state=group.source_state,
            target_state=_target_state(group.target),
            partitions=tuple(self._partition(group, one) for one in sorted(group.outcomes)),
        )

    def _partition(self, group: _Group, partition: TopicPartition) -> GroupPartitionStatus:
        outcome = group.outcomes[partition]
        committed = group.committed.get(partition)
        translated = _translated(outcome)
        place = self._places.get(partition.topic, RemoteName())
        remote = TopicPartition(place.topic, partition.partition) if place.topic is not None else None
        checkpoint = group.checkpoints.get(remote) if remote is not None else None
        offset = translated.offset if translated is not None else None
        if isinstance(outcome, HeldBack):
            offset = outcome.checkpoint.downstream_offset
        return GroupPartitionStatus(
            topic=partition.topic,
            partition=partition.partition,
            remote_topic=remote.topic if remote is not None else None,
            state=_partition_state(outcome),
            reason=place.refusal if isinstance(outcome, TopicNotSelected) and place.refusal else str(outcome),
            source_offset=committed.offset if committed is not None else None,
            translated_offset=offset,
            precision=None if translated is None else "exact" if translated.exact else "conservative",
            records_read_again=translated.behind if translated is not None else None,
            checkpoint=CheckpointStatus(
                source_offset=checkpoint.upstream_offset, target_offset=checkpoint.downstream_offset
            )
            if checkpoint is not None
            else None,
            target_offset=_target_offset(group.target, remote),
            sync=self._sync(group, remote) if checkpoint is not None else None,
        )

    def _sync(self, group: _Group, remote: TopicPartition | None) -> str:
        if not self._syncs:
            return "sync.group.offsets.enabled is false"
        decision = group.decisions.get(remote) if remote is not None else None
        return str(decision) if decision is not None else "not checked yet"


def _state(group: _Group) -> tuple[GroupState, str]:
    """Return the state of the group as a whole, and the reason."""
    if group.filtered is not None:
        return GroupState.FILTERED, group.filtered
    if group.error is not None:
        return GroupState.FAILED, group.error
    if not group.looked_at:
        return GroupState.WAITING, "its offsets have not been read yet"
    if isinstance(group.target, Active):
        return (
            GroupState.ACTIVE,
            f"the group is active on the target ({group.target.state}); its offsets there are not changed",
        )
    return _translation_state(group.outcomes.values())


def _translation_state(outcomes: Iterable[Outcome]) -> tuple[GroupState, str]:
    counts = dict.fromkeys(GroupState, 0)
    reasons: dict[GroupState, dict[str, None]] = {}
    for outcome in outcomes:
        state = _partition_state(outcome)
        counts[state] += 1
        if state is not GroupState.TRANSLATED and len(reasons.setdefault(state, {})) < _MANY:
            reasons[state][str(outcome)] = None
    done = counts[GroupState.TRANSLATED]
    open_ones = [s for s in (GroupState.TOO_OLD, GroupState.NOT_REPLICATED, GroupState.WAITING) if counts[s]]
    if not done and not open_ones:
        return GroupState.NOT_COMMITTED, "the group has committed no offset for any selected topic"
    if not open_ones:
        return GroupState.TRANSLATED, f"offsets of {_partitions(done)} are translated"
    why = "; ".join(f"{_partitions(counts[state])}: {', '.join(reasons[state])}" for state in open_ones)
    if not done:
        return open_ones[0], why
    return GroupState.PARTLY_TRANSLATED, f"offsets of {_partitions(done)} are translated; {why}"


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"


def _partition_state(outcome: Outcome) -> GroupState:
    match outcome:
        case Emit() | CheckpointUnchanged() | HeldBack():
            return GroupState.TRANSLATED
        case Untranslated(reason=TooOld()):
            return GroupState.TOO_OLD
        case Untranslated(reason=NotReady()):
            return GroupState.WAITING
        case Untranslated():
            return GroupState.NOT_REPLICATED
        case NotCommitted():
            return GroupState.NOT_COMMITTED
        case TopicNotSelected():
            return GroupState.FILTERED


def _translated(outcome: Outcome) -> Translated | None:
    return outcome.translated if isinstance(outcome, Emit | CheckpointUnchanged) else None


def _target_state(target: TargetGroup | None) -> str | None:
    match target:
        case Active(state=state):
            return state
        case Idle():
            return "Empty"
        case _:
            return None


def _target_offset(target: TargetGroup | None, remote: TopicPartition | None) -> int | None:
    return target.committed.get(remote) if isinstance(target, Idle) and remote is not None else None
