"""Which consumer groups each checkpoint task translates, as the leader publishes it in ``mm2-configs.*``.

    mm2-groups-<task>           {"epoch":7,"version":3,"part":0,"parts":2,"groups":["billing",…]}
    mm2-groups-<task>.<part>    the further parts of a list that is too long for one record (`parted_lists`)

Java puts the groups into the tasks' configurations and starts all tasks anew when one group comes (mm2-compat §4.1).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mm2.core.assignment import spread
from mm2.core.names import TopicPartition
from mm2.core.parted_lists import PART_BYTES, Age, Arrivals, Part, decode_part, encode_part, next_epoch

KEY_PREFIX = "mm2-groups-"

FIRST = 0
"""The number of the checkpoint task that there is also where there are no groups: it looks for them."""

_NONE: frozenset[str] = frozenset()


def share_groups(
    groups: Iterable[str], *, tasks_max: int, previous: Mapping[str, int] | None = None
) -> tuple[frozenset[str], ...]:
    """The groups of checkpoint task 0, 1 and so on: of min(``tasks_max``, number of groups) tasks, as in Java, but with
    `spread`'s invariants instead of contiguous parts: a group stays with its task (``previous``) while there is that
    task, unless it has clearly more groups than another. Raises ValueError for a ``tasks_max`` below 1."""
    before = {TopicPartition(group, 0): task for group, task in (previous or {}).items()}
    lists = spread((TopicPartition(group, 0) for group in groups), tasks_max=tasks_max, previous=before)
    return tuple(frozenset(one.topic for one in some) for some in lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """All groups of checkpoint task ``task``, as a leader of ``epoch`` decided; ``version`` grows with each of its
    decisions on this task."""

    task: int
    epoch: int
    version: int
    groups: frozenset[str]

    @property
    def age(self) -> Age:
        """Higher is newer."""
        return self.epoch, self.version


def encode_groups(record: GroupList, *, part_bytes: int = PART_BYTES) -> list[tuple[bytes, bytes]]:
    """Keys and values, each value of about ``part_bytes`` at most. They count only together."""
    parts = list(_parted(record.groups, part_bytes))
    return [
        encode_part(
            KEY_PREFIX,
            Part(
                number=record.task,
                epoch=record.epoch,
                version=record.version,
                part=at,
                parts=len(parts),
                content={"groups": groups},
            ),
        )
        for at, groups in enumerate(parts)
    ]


def is_groups_key(key: bytes | None) -> bool:
    """Whether the record is one of these."""
    return key is not None and key.startswith(KEY_PREFIX.encode())


def decode_groups(key: bytes | None, value: bytes | None) -> Part[frozenset[str]]:
    """Read one record. Raises FormatError, also for a null value."""
    return decode_part(key, value, prefix=KEY_PREFIX, what="groups of task", content=_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnGroups:
    """What one node translates. ``groups``: those of its tasks, None for all there are. ``listed``: where the first
    task is among its own, the groups that any task has, since that node tells of those that none has, too."""

    groups: frozenset[str] | None = None
    listed: frozenset[str] | None = None

    def has(self, group: str) -> bool:
        """Whether the group is translated here."""
        return self.groups is None or group in self.groups

    def shows(self, group: str) -> bool:
        """Whether this node tells of the group; of each group one node does."""
        return self.has(group) or (self.listed is not None and group not in self.listed)


EVERY_GROUP = OwnGroups()


@dataclass(slots=True)
class GroupListBook:
    """The newest list of each checkpoint task, from records in the order of the topic; (A) and (B) of `Arrivals` hold
    for it. ``revision`` grows with each list."""

    records: dict[int, GroupList] = field(default_factory=dict)
    revision: int = 0
    _arrivals: Arrivals[frozenset[str]] = field(default_factory=Arrivals)

    def take(self, part: Part[frozenset[str]]) -> bool:
        """Whether a task's list is another one now."""
        newest = self.records.get(part.number)
        parts = self._arrivals.take(part, newest.age if newest is not None else None)
        if parts is None:
            return False
        self.records[part.number] = GroupList(
            task=part.number, epoch=part.epoch, version=part.version, groups=_NONE.union(*parts)
        )
        self.revision += 1
        return True

    def epoch_of_next_leader(self, generation: int) -> int:
        """Under what epoch a new leader of the group's ``generation`` writes (`next_epoch`)."""
        return next_epoch(generation, (record.age for record in self.records.values()))

    def previous(self) -> dict[str, int]:
        """The task of each group, for `share_groups`."""
        newest_last = sorted(self.records.values(), key=lambda record: record.age)
        return {group: record.task for record in newest_last for group in record.groups}

    def sizes(self) -> dict[int, int]:
        """How many groups each task has that has some."""
        return {task: len(record.groups) for task, record in self.records.items() if record.groups}

    def share(self, tasks: Collection[int]) -> OwnGroups:
        """What a node translates that runs these tasks. Before the first list is published the first task has all
        groups."""
        if not self.records:
            return EVERY_GROUP if FIRST in tasks else OwnGroups(groups=_NONE)
        mine = _NONE.union(*(record.groups for task, record in self.records.items() if task in tasks))
        every = _NONE.union(*(record.groups for record in self.records.values()))
        return OwnGroups(groups=mine, listed=every if FIRST in tasks else None)

    def changes(self, wanted: Sequence[frozenset[str]], epoch: int) -> list[GroupList]:
        """What a leader of ``epoch`` publishes, in one go, so that the tasks 0, 1 and so on have the ``wanted`` groups.
        A task that is gone gets an empty list; the first one gets a list also where there are no groups."""
        lists = {FIRST: _NONE} | dict(enumerate(wanted))
        changed = []
        for task in sorted(lists.keys() | self.records.keys()):
            groups, record = lists.get(task, _NONE), self.records.get(task)
            if record is None or record.groups != groups:
                version = record.version + 1 if record is not None and record.epoch == epoch else 1
                changed.append(GroupList(task=task, epoch=epoch, version=version, groups=groups))
        return changed


def _parted(groups: Collection[str], part_bytes: int) -> Iterable[list[str]]:
    """At least one part, which may be empty."""
    part: list[str] = []
    size = 0
    for group in sorted(groups):
        length = len(json.dumps(group, ensure_ascii=False).encode()) + 1
        if part and size + length > part_bytes:
            yield part
            part, size = [], 0
        size += length
        part.append(group)
    yield part


def _groups(message: Any) -> frozenset[str]:
    groups = message["groups"]
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise ValueError(f"{groups!r:.200} is no list of groups")
    return frozenset(groups)
