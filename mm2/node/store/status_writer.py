"""Writer of task and connector statuses to ``mm2-status.<source>.internal``, in Java's format."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow
from mm2.core.wire.murmur2 import partition_of
from mm2.core.wire.status_records import (
    ConnectState,
    Status,
    TopicUse,
    connect_state,
    connector_key,
    encode_status,
    encode_topic_use,
    task_key,
    topic_key,
)
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.common.current_error import CurrentError
from mm2.node.store.status_store import StatusStore

log = logging.getLogger(__name__)

TOPICS_A_CALL = 200
"""Maximum number of topic records per call: about 5 ms. The others wait for the next call."""

_SAFE = frozenset({ConnectState.UNASSIGNED, ConnectState.FAILED})
"""States that a worker can report for a task that it has already lost (Java: StatusBackingStore.putSafe)."""


@dataclass(slots=True, eq=False)
class _Written:
    """The last record written with a key. ``status`` None is a tombstone; ``offset`` is set once it is acknowledged."""

    status: Status | None = None
    offset: int | None = None
    failed: bool = False


class StatusWriter:
    """Writes the statuses of one node for one flow. No method blocks: records are sent through ``producer``, in order
    per key.

    A. A state is written when it changes, and again by a later call if it could not be stored or was overwritten by a
       worker whose generation is not newer.
    B. UNASSIGNED and FAILED do not overwrite the status of another worker with a newer generation, nor UNASSIGNED a
       RUNNING status with the same generation. This is slightly stricter than Java's rule
       (KafkaStatusBackingStore.putSafe), in which readers ignore the second case. It depends on ``store``, which can
       lag behind the topic.
    C. A task or connector that was in an earlier call, but not in this one, is UNASSIGNED.
    """

    def __init__(
        self,
        flow: Flow,
        producer: ControlProducer,
        store: StatusStore,
        *,
        partitions: int,
        worker_id: str,
        version: str | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``partitions`` is the partition count of the topic, ``worker_id`` from `core.wire.status_records.worker_id`.

        ``version`` is written where Java writes the version of a connector. ``clock`` returns epoch seconds.
        """
        self._producer = producer
        self._store = store
        self._partitions = partitions
        self._worker_id = worker_id
        self._version = version
        self._clock = clock
        self._tasks: dict[bytes, _Written] = {}
        self._connectors: dict[bytes, _Written] = {}
        self._removed: dict[bytes, _Written] = {}
        self._topic_uses: dict[bytes, _Written] = {}
        self.error = CurrentError(log, flow)

    def tasks(self, states: Mapping[str, tuple[TaskState, str | None]], generation: int) -> None:
        """Write the states of all tasks of this node with their errors, under the group's ``generation``."""
        wanted = {task_key(task): self._status(state, generation, error) for task, (state, error) in states.items()}
        for key in wanted.keys() & self._removed.keys():
            del self._removed[key]
        self._update(self._tasks, wanted, generation)

    def connectors(self, states: Mapping[str, TaskState], generation: int) -> None:
        """Write the states of all connectors; called by the leader, and without states by a replaced leader."""
        wanted = {connector_key(name): self._status(state, generation) for name, state in states.items()}
        self._update(self._connectors, wanted, generation)

    def topics(self, uses: Iterable[tuple[str, str, int]]) -> None:
        """Write the topics (name, connector, task number) that tasks write to.

        Each is written once, with the current time, unless the store contains it; at most `TOPICS_A_CALL` per call.
        """
        new = 0
        for topic, connector, task in uses:
            key = topic_key(topic, connector)
            written = self._topic_uses.get(key)
            if self._store.uses(topic, connector) or (written is not None and not written.failed):
                continue
            use = TopicUse(topic=topic, connector=connector, task=task, discovered_ms=int(self._clock() * 1000))
            self._topic_uses[key] = self._send(key, encode_topic_use(use), _Written())
            new += 1
            if new == TOPICS_A_CALL:
                return

    def remove(self, tasks: Iterable[str]) -> None:
        """Delete the statuses of tasks that no longer exist."""
        for task in tasks:
            key = task_key(task)
            written, entry = self._removed.get(key), self._store.entry(key)
            exists = entry is not None and entry.newest is not None
            if written is None:
                due = self._tasks.pop(key, None) is not None or exists
            else:
                due = written.failed or (exists and self._was_followed(key, written))
            if due:
                self._removed[key] = self._send(key, None, _Written())

    def _status(self, state: TaskState, generation: int, error: str | None = None) -> Status:
        connect = connect_state(state)
        return Status(
            state=connect,
            trace=error if connect is ConnectState.FAILED else None,
            worker_id=self._worker_id,
            generation=generation,
            version=self._version,
        )

    def _update(self, written: dict[bytes, _Written], wanted: Mapping[bytes, Status], generation: int) -> None:
        for key, status in {**self._unassigned(written, generation), **wanted}.items():
            before = written.get(key)
            if before is None or self._differs(before, status) or self._was_overwritten(key, before, generation):
                if self._may_write(key, status):
                    written[key] = self._send(key, encode_status(status), _Written(status))
                elif key not in wanted:
                    written[key] = _Written(status)  # not written later either: another worker has the task

    def _unassigned(self, written: Mapping[bytes, _Written], generation: int) -> dict[bytes, Status]:
        """Return UNASSIGNED for every key ever written, for those that this node no longer has.

        The generation is that in which the task was first found missing, even if the record could not be stored then.
        """
        fresh = self._status(TaskState.STOPPED, generation)
        return {
            key: one.status if one.status is not None and one.status.state is ConnectState.UNASSIGNED else fresh
            for key, one in written.items()
        }

    @staticmethod
    def _differs(written: _Written, status: Status) -> bool:
        last = written.status
        return written.failed or last is None or (last.state, last.trace) != (status.state, status.trace)

    def _was_followed(self, key: bytes, written: _Written) -> bool:
        """Return whether the store contains a record that is newer than ours."""
        entry = self._store.entry(key)
        return entry is not None and written.offset is not None and entry.offset > written.offset

    def _was_overwritten(self, key: bytes, written: _Written, generation: int) -> bool:
        entry = self._store.entry(key)
        return (
            self._was_followed(key, written)
            and written.status is not None
            and written.status.state is not ConnectState.UNASSIGNED
            and entry is not None
            and entry.newest is not None
            and entry.newest.worker_id != self._worker_id
            and entry.newest.generation <= generation
        )

    def _may_write(self, key: bytes, status: Status) -> bool:
        entry = self._store.entry(key)
        current = entry.status if entry is not None else None
        if current is None or status.state not in _SAFE or current.worker_id == self._worker_id:
            return True
        if current.state is ConnectState.RUNNING and status.state is ConnectState.UNASSIGNED:
            return current.generation < status.generation
        return current.generation <= status.generation

    def _send(self, key: bytes, value: bytes | None, written: _Written) -> _Written:
        def done(stored: asyncio.Future[int]) -> None:
            error = stored.exception()
            if error is None:
                written.offset = stored.result()
                self.error.clear()
            else:
                written.failed = True
                if isinstance(error, ClusterError) and not isinstance(error, ClusterClosed):
                    self._report(error)

        try:
            stored = self._producer.send(self._store.topic, partition_of(key, self._partitions), key, value)
        except ClusterError as error:
            written.failed = True
            self._report(error)
        else:
            stored.add_done_callback(done)
        return written

    def _report(self, error: ClusterError) -> None:
        self.error.report(f"cannot write task states to {self._store.topic}: {error}", error)
