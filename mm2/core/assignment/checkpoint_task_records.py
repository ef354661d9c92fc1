"""Records of ``mm2-configs.*`` in which the leader publishes the consumer groups of each checkpoint task.

    mm2-groups-<task>           {"epoch":7,"version":3,"part":0,"parts":2,"groups":["billing",…]}
    mm2-groups-<task>.<part>    additional parts of a list that is too long for one record (`chunked_records`)

Java puts the groups into the tasks' configurations and restarts all tasks when a group appears
(MirrorCheckpointConnector.taskConfigs).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mm2.core.assignment.chunked_records import PART_BYTES, Age, Chunk, ListBook, decode_chunk, encode_list
from mm2.core.assignment.partition_assignment import spread
from mm2.core.naming.names import TopicPartition

KEY_PREFIX = "mm2-groups-"

FIRST = 0
"""The number of the checkpoint task that exists even without groups: it discovers them."""

_NONE: frozenset[str] = frozenset()


def share_groups(
    groups: Iterable[str], *, tasks_max: int, previous: Mapping[str, int] | None = None
) -> tuple[frozenset[str], ...]:
    """Return the groups of checkpoint task 0, 1 and so on.

    There are min(``tasks_max``, number of groups) tasks, as in Java, but with `spread`'s invariants instead of
    contiguous parts: a group stays with its task (``previous``) while that task exists, unless the task has clearly
    more groups than another. Raises ValueError for a ``tasks_max`` below 1.
    """
    before = {TopicPartition(group, 0): task for group, task in (previous or {}).items()}
    lists = spread((TopicPartition(group, 0) for group in groups), tasks_max=tasks_max, previous=before)
    return tuple(frozenset(one.topic for one in some) for some in lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """All groups of checkpoint task ``task``, assigned by the leader of ``epoch``.

    ``version`` increases with each list that this leader publishes for the task.
    """

    task: int
    epoch: int
    version: int
    groups: frozenset[str]

    @property
    def age(self) -> Age:
        """Epoch and version; a higher age is newer."""
        return self.epoch, self.version


def encode_groups(record: GroupList, *, part_bytes: int = PART_BYTES) -> list[tuple[bytes, bytes]]:
    """Return keys and values, each value of at most about ``part_bytes``. They are valid only together."""
    contents = [{"groups": groups} for groups in _split(record.groups, part_bytes)]
    return encode_list(KEY_PREFIX, record.task, record.age, contents)


def is_groups_key(key: bytes | None) -> bool:
    """Return whether the key is that of a group list."""
    return key is not None and key.startswith(KEY_PREFIX.encode())


def decode_groups(key: bytes | None, value: bytes | None) -> Chunk[frozenset[str]]:
    """Read one record. Raises FormatError, also for a null value."""
    return decode_chunk(key, value, prefix=KEY_PREFIX, what="groups of task", content=_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnGroups:
    """The groups that one node translates.

    ``groups``: those of its tasks, or None for all groups. ``listed``: on the node with the first task, the groups of
    all tasks, because that node also reports groups that no task has; None on other nodes.
    """

    groups: frozenset[str] | None = None
    listed: frozenset[str] | None = None

    def has(self, group: str) -> bool:
        """Return whether this node translates the group."""
        return self.groups is None or group in self.groups

    def shows(self, group: str) -> bool:
        """Return whether this node reports the group; exactly one node reports each group."""
        return self.has(group) or (self.listed is not None and group not in self.listed)


EVERY_GROUP = OwnGroups()


class GroupListBook(ListBook[frozenset[str], GroupList]):
    """The newest list of each checkpoint task."""

    def _join(self, part: Chunk[frozenset[str]], contents: Sequence[frozenset[str]]) -> GroupList:
        return GroupList(task=part.number, epoch=part.epoch, version=part.version, groups=_NONE.union(*contents))

    def previous(self) -> dict[str, int]:
        """Return the task of each group, for `share_groups`."""
        newest_last = sorted(self.records.values(), key=lambda record: record.age)
        return {group: record.task for record in newest_last for group in record.groups}

    def sizes(self) -> dict[int, int]:
        """Return the number of groups of each task that has any."""
        return {task: len(record.groups) for task, record in self.records.items() if record.groups}

    def share(self, tasks: Collection[int]) -> OwnGroups:
        """Return what a node with these tasks translates. Until a list is published, the first task has all groups."""
        if not self.records:
            return EVERY_GROUP if FIRST in tasks else OwnGroups(groups=_NONE)
        mine = _NONE.union(*(record.groups for task, record in self.records.items() if task in tasks))
        every = _NONE.union(*(record.groups for record in self.records.values()))
        return OwnGroups(groups=mine, listed=every if FIRST in tasks else None)

    def changes(self, wanted: Sequence[frozenset[str]], epoch: int) -> list[GroupList]:
        """Return the lists to publish together, as leader of ``epoch``, so that task 0, 1 and so on have ``wanted``.

        A task that no longer exists gets an empty list; the first task gets a list even if there are no groups.
        """
        lists = {FIRST: _NONE} | dict(enumerate(wanted))
        changed = []
        for task in sorted(lists.keys() | self.records.keys()):
            groups, record = lists.get(task, _NONE), self.records.get(task)
            if record is None or record.groups != groups:
                version = record.version + 1 if record is not None and record.epoch == epoch else 1
                changed.append(GroupList(task=task, epoch=epoch, version=version, groups=groups))
        return changed


def _split(groups: Collection[str], part_bytes: int) -> Iterable[list[str]]:
    """Yield at least one part, which can be empty."""
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
        raise ValueError(f"{groups!r:.200} is not a list of groups")
    return frozenset(groups)
