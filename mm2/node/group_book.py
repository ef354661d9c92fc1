"""What became of each consumer group of the source, and why: for people who ask where a group would go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mm2.core.checkpoints import (
    CommittedOffset,
    Emit,
    HeldBack,
    NotCommitted,
    Outcome,
    TopicNotSelected,
    Unchanged,
    Untranslated,
)
from mm2.core.formats import Checkpoint
from mm2.core.group_offsets import Active, Decision, Idle, TargetGroup
from mm2.core.names import TopicPartition
from mm2.core.offset_translation import NotReady, TooOld, Translated
from mm2.node.published import GroupPartitionStatus, GroupState, GroupStatus

_MANY = 3
"""Reasons a sentence about a whole group names; the others are with its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The target did not take the group's offset."""

    words: str

    def __str__(self) -> str:
        return f"not written: {self.words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """One group as it was last seen. Never changed, only replaced, as it is read from other threads."""

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
    """A topic's name on the target, or why it has none there: ``refusal`` is a sentence."""

    topic: str | None = None
    refusal: str = ""


class GroupBook:
    """Iterating gives the groups as they are at that moment, in the order of their names; from any thread.

    Only what was found out is kept here. Sentences are made for who reads them: a round over 100,000 partitions makes
    none. Users' classes are asked by the rounds, not by who reads, since they expect to be asked on the event loop.
    """

    def __init__(self, *, place: Callable[[str], RemoteName], syncs: bool) -> None:
        """``place``: what a source topic is on the target. ``syncs``: whether group offsets are written there."""
        self._place = place
        self._syncs = syncs
        self._groups: dict[str, _Group] = {}
        self._places: dict[str, RemoteName] = {}
        self._placed: set[str] = set()  # since the last look at the groups

    def keep(self, listed: Mapping[str, str | None]) -> None:
        """The source's groups and their states there; others are forgotten."""
        if self._placed:  # what no round asked for any more goes; the rest is shown until it is asked for again
            self._places = {topic: self._places[topic] for topic in self._placed}
            self._placed = set()  # filters and policies of users may change their minds
        for name in self._groups.keys() - listed.keys():
            del self._groups[name]
        for name, state in listed.items():
            known = self._groups.get(name)
            if known is None:
                self._groups[name] = _Group(name=name, source_state=state)
            elif known.source_state != state:
                self._groups[name] = replace(known, source_state=state)

    def only(self, shown: Callable[[str], bool]) -> None:
        """Forget all groups but those."""
        self._groups = {name: group for name, group in self._groups.items() if shown(name)}

    def filtered(self, group: str, reason: str) -> None:
        """The group is not looked at."""
        if group in self._groups:
            self._groups[group] = _Group(name=group, source_state=self._groups[group].source_state, filtered=reason)

    def selected(self, group: str) -> None:
        """The group is looked at."""
        if group in self._groups:
            self._groups[group] = replace(self._groups[group], filtered=None)

    def failed(self, group: str, error: str) -> None:
        """The group's offsets could not be read; what was known of it stays."""
        if group in self._groups:
            self._groups[group] = replace(self._groups[group], error=error)

    def judged(
        self,
        group: str,
        committed: Mapping[TopicPartition, CommittedOffset | None],
        outcomes: Mapping[TopicPartition, Outcome],
        checkpoints: Mapping[TopicPartition, Checkpoint],
    ) -> None:
        """A round looked at the group. The mappings must not change any more."""
        if group in self._groups:
            for topic in {partition.topic for partition in outcomes} - self._placed:
                self._places[topic] = self._place(topic)
                self._placed.add(topic)
            self._groups[group] = replace(
                self._groups[group],
                error=None,
                looked_at=True,
                committed=committed,
                outcomes=outcomes,
                checkpoints=checkpoints,
            )

    def synced(
        self, group: str, target: TargetGroup | None, decisions: Mapping[TopicPartition, Decision | Refused]
    ) -> None:
        """Group offset sync looked at the group; ``target`` None: it could not."""
        if group in self._groups:
            self._groups[group] = replace(self._groups[group], target=target, decisions=decisions)

    def __iter__(self) -> Iterator[GroupStatus]:
        groups = self._groups.copy()  # in one go: the other threads go on
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
            exact=translated.exact if translated is not None else None,
            read_again=translated.behind if translated is not None else None,
            checkpoint=(checkpoint.upstream_offset, checkpoint.downstream_offset) if checkpoint is not None else None,
            target_offset=_target_offset(group.target, remote),
            sync=self._sync(group, remote) if checkpoint is not None else None,
        )

    def _sync(self, group: _Group, remote: TopicPartition | None) -> str:
        if not self._syncs:
            return "sync.group.offsets.enabled is false"
        decision = group.decisions.get(remote) if remote is not None else None
        return str(decision) if decision is not None else "not looked at yet"


def _state(group: _Group) -> tuple[GroupState, str]:
    """The group as a whole."""
    if group.filtered is not None:
        return GroupState.FILTERED, group.filtered
    if group.error is not None:
        return GroupState.FAILED, group.error
    if not group.looked_at:
        return GroupState.WAITING, "its offsets have not been looked at yet"
    if isinstance(group.target, Active):
        return (
            GroupState.ACTIVE,
            f"the group is active on the target ({group.target.state}): it keeps the position it has there",
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
        return GroupState.NOT_COMMITTED, "it has committed no offset for any topic that is selected"
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
        case Emit() | Unchanged() | HeldBack():
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
    return outcome.translated if isinstance(outcome, Emit | Unchanged) else None


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
