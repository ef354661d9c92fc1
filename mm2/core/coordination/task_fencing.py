"""Java's records about the transactional IDs of source tasks, in ``mm2-configs.*`` (KIP-618).

    tasks-fencing-MirrorSourceConnector    {"task-count":4}
    commit-MirrorSourceConnector           {"tasks":2}

The first is stored before source tasks write in transactions: IDs 0 to 3 may be in use. A leader fences all of them
before source tasks of another generation start. The second ends each list of tasks that Java's leader publishes. Java
fences only if it is newer than the first record (KafkaConfigBackingStore, DistributedHerder.fenceZombieSourceTasks).

Our leader therefore stores the first, and after it, if Java has published tasks, the second with 0 tasks, as Java does
for a stopped connector. A leader of Java that takes over then publishes its tasks again, and fences ours before.

The numbers of our source tasks can have gaps (`query_source_tasks`). Our leader then adds them, so that the next one
does not fence hundreds of IDs that were never used. Java ignores this field, and its own record does not have it:

    tasks-fencing-MirrorSourceConnector    {"task-count":102,"unused":[[2,100]]}    from 2 to 99
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import as_int, decode_json

FENCING_KEY = b"tasks-fencing-MirrorSourceConnector"
COMMIT_KEY = b"commit-MirrorSourceConnector"

KEYS = frozenset({FENCING_KEY, COMMIT_KEY})

MOST_TASKS = 100_000
"""Larger numbers are invalid: each transactional ID is one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFencing:
    """What these records say.

    ``task_count``: the transactional IDs below it may be in use, except for those in ``unused``; None: none was used
    yet. ``java_tasks``: the tasks that Java published after our last record; 0: Java has not led the flow since then.
    """

    task_count: int | None = None
    java_tasks: int = 0
    unused: tuple[range, ...] = ()

    def take(self, key: bytes, value: bytes | None) -> TaskFencing:
        """Return this with one record applied. Raises FormatError."""
        if key == FENCING_KEY:
            if value is None:
                return replace(self, task_count=None, unused=())
            return replace(self, task_count=_number(key, value, "task-count"), unused=_unused(key, value))
        return replace(self, java_tasks=0 if value is None else _number(key, value, "tasks"))

    def covers(self, source_task: int) -> bool:
        """Return whether our leader has recorded that this source task may write in transactions."""
        if self.java_tasks or self.task_count is None or source_task >= self.task_count:
            return False
        return not any(source_task in gap for gap in self.unused)

    def to_fence(self, owned: Collection[int], confirmed: Collection[int], listed: Collection[int] = ()) -> list[int]:
        """Return the source tasks whose transactional IDs a new leader has to fence before it publishes anything.

        ``owned`` have an owner among our nodes, which fences the previous one before it starts. ``confirmed`` are those
        of them whose owner has started. If Java was the leader, an owner that has not started is not enough: Java's
        task may copy partitions of other source tasks. ``listed`` have a list: a leader that did not record them, as it
        did not write in transactions, can have used them since.
        """
        live = confirmed if self.java_tasks else owned
        unused = frozenset[int]() if self.java_tasks else frozenset(chain(*self.unused)).difference(listed)
        numbers = range(self.task_count or 0)
        return [source_task for source_task in numbers if source_task not in live and source_task not in unused]

    def records(self, in_use: Collection[int]) -> list[tuple[bytes, bytes]]:
        """Return the records to write so that the source tasks ``in_use`` are covered, and no others.

        After Java has led, Java's records remain until there are source tasks.
        """
        task_count, unused = 1 + max(in_use, default=-1), _gaps(in_use)
        message: dict[str, object] = {"task-count": task_count}
        if unused:
            message["unused"] = [[gap.start, gap.stop] for gap in unused]
        fencing = (FENCING_KEY, _json(message))
        if self.java_tasks:
            return [fencing, (COMMIT_KEY, _json({"tasks": 0}))] if task_count else []
        return [fencing] if (task_count, unused) != (self.task_count or 0, self.unused) else []


NO_FENCING = TaskFencing()


def _gaps(numbers: Collection[int]) -> tuple[range, ...]:
    """Return the ranges between 0 and the highest of ``numbers`` that contain none of them."""
    pairs = pairwise([-1, *sorted(numbers)])
    return tuple(range(before + 1, number) for before, number in pairs if before + 1 < number)


def _json(message: object) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def _unused(key: bytes, value: bytes) -> tuple[range, ...]:
    try:
        pairs = decode_json(value, key.decode()).get("unused", [])
        gaps = tuple(range(as_int(first), as_int(until)) for first, until in pairs)
    except (ValueError, TypeError) as error:
        raise FormatError(f"cannot read {key.decode()}: {error!r}: {value!r:.200}") from None
    if not all(0 <= gap.start < gap.stop <= MOST_TASKS for gap in gaps):
        raise FormatError(f"cannot read {key.decode()}: unused {value!r:.200} is not from 0 to {MOST_TASKS}")
    return gaps


def _number(key: bytes, value: bytes, field: str) -> int:
    try:
        number = as_int(decode_json(value, key.decode())[field])
    except (TypeError, KeyError, AttributeError, IndexError) as error:
        raise FormatError(f"cannot read {key.decode()}: {error!r}: {value!r:.200}") from None
    if not 0 <= number <= MOST_TASKS:
        raise FormatError(f"cannot read {key.decode()}: {number} is not from 0 to {MOST_TASKS}")
    return number
