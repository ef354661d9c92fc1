"""The producers of this node's source tasks, acquired in the background before their leases."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from mm2.core.lanes.lease import TaskProducer
from mm2.core.naming.names import Flow, TopicPartition
from mm2.kafka.errors import ClusterError, RequestTimedOut
from mm2.node.common.current_error import CurrentError
from mm2.node.source.source_task_fence import SourceTaskFence

log = logging.getLogger(__name__)

AT_ONCE = 8
"""Source tasks whose producers are acquired at the same time."""

WAIT_S = 1.5
"""How long a lane's request waits for its producer; the lane repeats it (`flows.lane.lease_client.CALL_TIMEOUT_S`)."""


@dataclass(slots=True)
class _Acquired:
    """``used``: a lane may write with it, from sequence 0 on, so that no other run may."""

    producer: TaskProducer | None
    used: bool = False


class TaskProducers:
    """One producer for each run of a source task: for a new owner, a restart, and a lane that replaces a lost one.

    (A) A producer is acquired only after the previous one was used, and is used by one run only.
    (B) Of one source task, one request at a time is sent to the coordinator: a later one fences what an earlier one has
        acquired.
    (C) A coordinator that does not answer delays only the source tasks that need it: `acquire` never waits.
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
        self._flow = flow
        self._fence = fence
        self._after_loss = after_loss
        self._changed = changed
        self._acquired: dict[int, _Acquired] = {}
        self._acquiring: dict[int, asyncio.Task[Any]] = {}
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._errors: dict[int, CurrentError] = {}

    @property
    def errors(self) -> list[str]:
        """The errors that prevent source tasks from starting, and why the target cannot fence."""
        texts = [error.text for error in self._errors.values()]
        return [text for text in (*texts, self._fence.warning) if text is not None]

    def error_of(self, source_task: int) -> CurrentError | None:
        """Return why the source task has no producer; None if it has one, or there was no error yet."""
        error = self._errors.get(source_task)
        return error if error is not None and error.text is not None else None

    def is_ready(self, source_task: int) -> bool:
        """Return whether there is a producer for the next run."""
        known = self._acquired.get(source_task)
        return known is not None and not known.used

    def acquire(self, source_task: int, remote: Collection[TopicPartition]) -> None:
        """Acquire the producer of the next run in the background; earlier ones are fenced on partitions ``remote``."""
        if source_task not in self._acquiring:
            task = asyncio.create_task(
                self._acquire(source_task, remote), name=f"{self._flow} producer of source task {source_task}"
            )
            self._acquiring[source_task] = task
            task.add_done_callback(partial(self._ended, source_task))

    async def wait(self, source_task: int, remote: Collection[TopicPartition]) -> None:
        """Acquire the producer of the next run, waiting for at most `WAIT_S`. Raises RequestTimedOut."""
        if self.is_ready(source_task):
            return
        self.acquire(source_task, remote)
        await asyncio.wait([self._acquiring[source_task]], timeout=WAIT_S)
        if not self.is_ready(source_task):
            raise RequestTimedOut(f"source task {source_task}: its earlier lane is not fenced yet")

    def mark_used(self, source_task: int) -> bool:
        """A lane may write with the current producer from now on. Return whether none could before."""
        known = self._acquired.get(source_task)
        if known is None or known.used:
            return False
        known.used = True
        return True

    def of(self, source_task: int) -> TaskProducer | None:
        """Return the current producer of the source task; None: it writes without fencing."""
        known = self._acquired.get(source_task)
        return None if known is None else known.producer

    @property
    def unfenced(self) -> list[int]:
        """The source tasks that write without fencing, because the target did not permit it."""
        if not self._fence.is_enabled:
            return []
        return [number for number, one in self._acquired.items() if one.used and one.producer is None]

    async def fences_again(self, source_task: int) -> bool:
        """Return whether the target fences now; False if a producer of the source task is being acquired."""
        if source_task in self._acquiring:
            return False
        checking = asyncio.create_task(
            self._fence.fences_again(source_task), name=f"{self._flow} fencing of source task {source_task}"
        )
        self._acquiring[source_task] = checking
        checking.add_done_callback(partial(self._ended, source_task))
        await asyncio.wait([checking])
        return not checking.cancelled() and checking.result()

    def _ended(self, source_task: int, task: asyncio.Task[Any]) -> None:
        if self._acquiring.get(source_task) is task:
            del self._acquiring[source_task]

    def forget(self, source_task: int) -> None:
        """The source task was released."""
        self._acquired.pop(source_task, None)
        self._errors.pop(source_task, None)
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

    async def _acquire(self, source_task: int, remote: Collection[TopicPartition]) -> None:
        """Acquire the next producer. After an error, the caller's next call starts another attempt."""
        error = self._errors.setdefault(source_task, CurrentError(log, self._flow))
        try:
            async with self._limit:
                producer, after_loss = await self._fence.acquire(source_task, remote)
                if after_loss:
                    await self._after_loss(source_task)
            self._acquired[source_task] = _Acquired(producer)
            error.clear()
            self._changed()
        except ClusterError as failure:
            error.report(f"cannot fence earlier owners of source task {source_task}: {failure}; retrying", failure)
        except Exception as failure:  # must not end the other source tasks, and is retried
            log.exception("%s: unexpected error while fencing owners of source task %d", self._flow, source_task)
            error.report(f"cannot fence earlier owners of source task {source_task}: {failure!r}; retrying", failure)
