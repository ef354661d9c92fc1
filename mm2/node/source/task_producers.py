"""The producers of this node's source tasks, acquired in the background before their leases."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection

from mm2.core.lanes.lease import TaskProducer
from mm2.core.naming.names import Flow, TopicPartition
from mm2.kafka.errors import ClusterError, RequestTimedOut
from mm2.node.common.current_error import CurrentError
from mm2.node.source.source_task_fence import SourceTaskFence

log = logging.getLogger(__name__)

RENEW_S = 1.5
"""How long a lane's request waits for its producer; the lane repeats it (`flows.lane.lease_client.CALL_TIMEOUT_S`)."""


class TaskProducers:
    """One producer for each source task and restart of it.

    (A) A coordinator that does not answer delays only the source tasks that need it: `is_ready` never waits.
    (B) The producer that was acquired last is the one that `of` returns; the target rejects earlier ones.
    """

    def __init__(
        self,
        flow: Flow,
        fence: SourceTaskFence,
        *,
        after_loss: Callable[[int], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        """``after_loss`` is called with a source task whose lost owner was fenced, before its producer is used.

        ``changed`` is called when a producer was acquired.
        """
        self._fence = fence
        self._after_loss = after_loss
        self._changed = changed
        self._renewing: dict[int, asyncio.Task[None]] = {}
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
        """Acquire the next producer for the same restart, since a lane was lost.

        Raises ClusterErrors: RequestTimedOut after `RENEW_S`; the next call waits for the same producer.
        """
        task = self._renewing.get(source_task)
        if task is None:
            task = asyncio.create_task(self._acquire(source_task, remote), name=f"next producer {source_task}")
            self._renewing[source_task] = task
        done, _ = await asyncio.wait([task], timeout=RENEW_S)
        if not done or task.cancelled():
            raise RequestTimedOut(f"source task {source_task}: the previous lane is not fenced yet")
        if self._renewing.get(source_task) is task:
            del self._renewing[source_task]
        await task

    def forget(self, source_task: int) -> None:
        """The source task was released."""
        self._producers.pop(source_task, None)
        self._restarts.pop(source_task, None)
        for task in (self._acquiring.pop(source_task, None), self._renewing.pop(source_task, None)):
            if task is not None:
                task.cancel()

    async def close(self) -> None:
        """Cancel what is being acquired."""
        tasks = [*self._acquiring.values(), *self._renewing.values()]
        for source_task in [*self._acquiring, *self._renewing]:
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
        except Exception as error:  # must not end the other source tasks, and is retried
            log.exception("unexpected error while fencing earlier owners of source task %d", source_task)
            self._error.report(f"cannot fence earlier owners of source task {source_task}: {error!r}; retrying", error)
        finally:
            if self._acquiring.get(source_task) is asyncio.current_task():
                del self._acquiring[source_task]
        self._changed()

    async def _acquire(self, source_task: int, remote: Collection[TopicPartition]) -> None:
        async with self._one_at_a_time[source_task]:
            acquired = await self._fence.acquire(source_task, remote)
            if acquired.after_loss:
                await self._after_loss(source_task)
            self._producers[source_task] = acquired.producer
