"""What a node writes to ``mm2-status.<source>.internal``: how its tasks are, where Java's tools look for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from mm2.core.lease import TaskState
from mm2.core.murmur2 import partition_of
from mm2.core.names import Flow
from mm2.core.status_records import (
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
from mm2.kafka.control_producer import ControlProducer
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.node.status_book import StatusBook

log = logging.getLogger(__name__)

TOPICS_A_CALL = 200
"""Records made before the event loop gets its turn: about 5 ms. The others wait for the next call."""

_SAFE = frozenset({ConnectState.UNASSIGNED, ConnectState.FAILED})
"""States that a worker tells of a task it may have lost already: Java looks before it writes these."""


@dataclass(slots=True, eq=False)
class _Told:
    """What was last written under a key; ``status`` None: that there is no such task. ``offset`` once it is stored,
    ``failed`` if it never will be."""

    status: Status | None
    offset: int | None = None
    failed: bool = False


class StatusWriter:
    """Statuses of one node for one flow. Nothing here waits: records go through ``producer``, in order per key.

    A. A state is written once, when it changes, and again after it could not be stored, or was overwritten by a worker
       of no newer generation: the next call finds out.
    B. UNASSIGNED and FAILED do not overwrite what another worker wrote under a newer generation, nor UNASSIGNED what it
       runs under the same one. That is Java's rule, a little stricter: there every reader leaves out the second case.
       It is as good as ``book``, which may lag behind the topic.
    C. A task or connector that is left out of a call after it was in one is UNASSIGNED.

    ``trouble`` is why something could not be stored, until the next time that something can.
    """

    def __init__(
        self,
        flow: Flow,
        producer: ControlProducer,
        book: StatusBook,
        *,
        topic: str,
        partitions: int,
        worker_id: str,
        version: str | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``partitions``: how many the topic has. ``worker_id`` as `core.status_records.worker_id` makes it;
        ``version`` stands where Java writes that of its connectors. ``clock`` gives epoch seconds."""
        self._flow = flow
        self._producer = producer
        self._book = book
        self._topic = topic
        self._partitions = partitions
        self._worker_id = worker_id
        self._version = version
        self._clock = clock
        self._tasks: dict[bytes, _Told] = {}
        self._connectors: dict[bytes, _Told] = {}
        self._gone: dict[bytes, _Told] = {}
        self._uses: set[tuple[str, str]] = set()
        self._last_logged = ""
        self.trouble: ClusterError | None = None

    def tasks(self, states: Mapping[str, tuple[TaskState, str | None]], generation: int) -> None:
        """All tasks this node has, with why each failed, under the group's ``generation``."""
        wanted = {task_key(task): self._status(state, generation, error) for task, (state, error) in states.items()}
        for key in wanted.keys() & self._gone.keys():
            del self._gone[key]
        self._tell_all(self._tasks, wanted, generation)

    def connectors(self, states: Mapping[str, TaskState], generation: int) -> None:
        """All connectors, by the leader; none any more by a leader that is replaced."""
        wanted = {connector_key(name): self._status(state, generation, None) for name, state in states.items()}
        self._tell_all(self._connectors, wanted, generation)

    def topics(self, uses: Iterable[tuple[str, str, int]]) -> None:
        """The topics (name, connector, number of the task) that tasks write to. Each is written down once, with the
        time of now, unless it is known already; of many the first 200, the others by calls to come."""
        new = 0
        for topic, connector, task in uses:
            if (topic, connector) in self._uses:
                continue
            self._uses.add((topic, connector))
            if self._book.uses(topic, connector):
                continue
            use = TopicUse(topic=topic, connector=connector, task=task, discovered_ms=int(self._clock() * 1000))
            forget = partial(self._uses.discard, (topic, connector))
            self._send(topic_key(topic, connector), encode_topic_use(use), lambda _: None, forget)
            new += 1
            if new == TOPICS_A_CALL:
                return

    def gone(self, tasks: Iterable[str]) -> None:
        """There are no such tasks any more, on any node: their statuses are removed, where there are any."""
        for task in tasks:
            key = task_key(task)
            told, entry = self._gone.get(key), self._book.entry(key)
            if told is None:
                if self._tasks.pop(key, None) is None and (entry is None or entry.newest is None):
                    continue
            elif not told.failed and (
                told.offset is None or entry is None or entry.newest is None or entry.offset <= told.offset
            ):
                continue
            self._write(self._gone, key, None)

    def _status(self, state: TaskState, generation: int, error: str | None) -> Status:
        told = connect_state(state)
        return Status(
            state=told,
            trace=error if told is ConnectState.FAILED else None,
            worker_id=self._worker_id,
            generation=generation,
            version=self._version,
        )

    def _tell_all(self, told: dict[bytes, _Told], wanted: Mapping[bytes, Status], generation: int) -> None:
        for key, status in {**self._left(told, generation), **wanted}.items():
            before = told.get(key)
            if before is None or self._differs(before, status) or self._overwritten(key, before, generation):
                if self._may_write(key, status):
                    self._write(told, key, status)
                elif key not in wanted:
                    told[key] = _Told(status)  # not looked at again: another has it, whatever our generation becomes

    def _left(self, told: Mapping[bytes, _Told], generation: int) -> dict[bytes, Status]:
        """All that was ever told as it is to be told when it is not ours any more; under the generation that it left
        in, also when that could not be stored at first."""
        fresh = self._status(TaskState.STOPPED, generation, None)
        return {
            key: one.status if one.status is not None and one.status.state is ConnectState.UNASSIGNED else fresh
            for key, one in told.items()
        }

    @staticmethod
    def _differs(told: _Told, status: Status) -> bool:
        was = told.status
        return told.failed or was is None or (was.state, was.trace) != (status.state, status.trace)

    def _overwritten(self, key: bytes, told: _Told, generation: int) -> bool:
        entry = self._book.entry(key)
        return (
            told.status is not None
            and told.status.state is not ConnectState.UNASSIGNED
            and told.offset is not None
            and entry is not None
            and entry.offset > told.offset
            and entry.newest is not None
            and entry.newest.worker_id != self._worker_id
            and entry.newest.generation <= generation
        )

    def _may_write(self, key: bytes, status: Status) -> bool:
        entry = self._book.entry(key)
        newest = entry.status if entry is not None else None
        if newest is None or status.state not in _SAFE or newest.worker_id == self._worker_id:
            return True
        if newest.state is ConnectState.RUNNING and status.state is ConnectState.UNASSIGNED:
            return newest.generation < status.generation
        return newest.generation <= status.generation

    def _write(self, told: dict[bytes, _Told], key: bytes, status: Status | None) -> None:
        new = told[key] = _Told(status)

        def stored(offset: int) -> None:
            new.offset = offset

        def failed() -> None:
            new.failed = True

        self._send(key, None if status is None else encode_status(status), stored, failed)

    def _send(self, key: bytes, value: bytes | None, stored: Callable[[int], None], failed: Callable[[], None]) -> None:
        try:
            written = self._producer.send(self._topic, partition_of(key, self._partitions), key, value)
        except ClusterError as error:
            failed()
            self._troubled(error)
            return

        def done(written: asyncio.Future[int]) -> None:
            error = written.exception()
            if error is None:
                stored(written.result())
                self.trouble = None
            else:
                failed()
                if isinstance(error, ClusterError) and not isinstance(error, ClusterClosed):
                    self._troubled(error)

        written.add_done_callback(done)

    def _troubled(self, error: ClusterError) -> None:
        self.trouble = error
        if str(error) != self._last_logged:
            self._last_logged = str(error)
            log.warning("%s: write the states of tasks to %s: %s", self._flow, self._topic, error)
