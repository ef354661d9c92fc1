"""The producers of this node's source tasks, acquired in the background before their leases."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection

from mm2.core.lanes.lease import TaskProducer
from mm2.core.naming.names import Flow, TopicPartition
from mm2.kafka.errors import ClusterError
from mm2.node.common.current_error import CurrentError
from mm2.node.source.source_task_fence import SourceTaskFence

log = logging.getLogger(__name__)


class TaskProducers:
    """One producer for each source task and restart of it.

    (A) A coordinator that does not answer delays only the source tasks that need it: `is_ready` never waits.
    (B) The producer that was acquired last is the one that `of` returns; the target rejects earlier ones.
    """

    def __init__(self, flow: Flow, fence: SourceTaskFence, changed: Callable[[], None]) -> None:
        """``changed`` is called when a producer was acquired."""
        self._fence = fence
        self._changed = changed
        self._producers: dict[int, TaskProducer | None] = {}
        self._restarts: dict[int, int] = {}
        self._acquiring: dict[int, asyncio.Task[None]] = {}
        self._one_at_a_time: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._error = CurrentError(log, flow)

    @property
    def error(self) -> str | None:
        """The error that prevents source tasks from starting."""
        return self._error.text

    @property
    def warning(self) -> str | None:
        """Why the target cannot fence earlier owners."""
        return self._fence.warning

    def is_ready(self, source_task: int, restart: int, remote: Collection[TopicPartition]) -> bool:
        """Return whether the producer for this restart has been acquired; otherwise acquire it in the background.

        Earlier producers of the source task are fenced on the partitions ``remote`` (`SourceTaskFence`).
        """
        if self._restarts.get(source_task) == restart:
            return True
        if not self._fence.is_enabled:
            self._producers[source_task], self._restarts[source_task] = None, restart
            return True
        if source_task not in self._acquiring:
            task = asyncio.create_task(self._try(source_task, restart, remote), name=f"producer {source_task}")
            self._acquiring[source_task] = task
        return False

    def of(self, source_task: int) -> TaskProducer | None:
        """Return the current producer of the source task; None: it writes without fencing."""
        return self._producers.get(source_task)

    async def renew(self, source_task: int, remote: Collection[TopicPartition]) -> None:
        """Acquire the next producer for the same restart, since a lane was lost. Raises ClusterError."""
        await self._acquire(source_task, remote)

    def forget(self, source_task: int) -> None:
        """The source task was released."""
        self._producers.pop(source_task, None)
        self._restarts.pop(source_task, None)
        task = self._acquiring.pop(source_task, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Cancel what is being acquired."""
        tasks = list(self._acquiring.values())
        for source_task in list(self._acquiring):
            self.forget(source_task)
        if tasks:
            await asyncio.wait(tasks)

    async def _try(self, source_task: int, restart: int, remote: Collection[TopicPartition]) -> None:
        try:
            await self._acquire(source_task, remote)
            self._restarts[source_task] = restart
            self._error.clear()
        except ClusterError as error:
            self._error.report(f"cannot fence earlier owners of source task {source_task}: {error}; retrying", error)
        finally:
            if self._acquiring.get(source_task) is asyncio.current_task():
                del self._acquiring[source_task]
        self._changed()

    async def _acquire(self, source_task: int, remote: Collection[TopicPartition]) -> None:
        async with self._one_at_a_time[source_task]:
            self._producers[source_task] = await self._fence.acquire(source_task, remote)
