"""Finds out when the target permits what it did not permit for earlier leases: fencing, and exact offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from mm2.core.naming.names import Flow
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.source.lease_builder import LeaseBuilder
from mm2.node.source.task_producers import TaskProducers

log = logging.getLogger(__name__)

CHECK_EVERY_S = 30.0
"""How often it is tried whether the target permits what leases lack; as often as a FAILED partition is tried again,
since a missing ACL is the usual cause of both."""


class MissingPermissions:
    """Finds the source tasks whose leases can be completed.

    (A) The target is asked in the background, so that no source task waits for its answers.
    (B) A round ends with the first source task that the target still does not fence; the next round begins with
        another one, since each has an ACL of its own.
    """

    def __init__(
        self, flow: Flow, producers: TaskProducers, builder: LeaseBuilder, *, changed: Callable[[], None]
    ) -> None:
        """``changed`` is called when a lease can be completed."""
        self._flow = flow
        self._producers = producers
        self._builder = builder
        self._changed = changed
        self._without_exact_offsets: set[int] = set()
        self._permitted: set[int] = set()
        self._asked = -1  # the last source task that the target was asked about
        self._check_at: float | None = None  # None: no lease lacks anything
        self._round: asyncio.Task[None] | None = None

    def granted(self, source_task: int) -> None:
        """The source task has a new lease."""
        if self._builder.lacks_exact_offsets:
            self._without_exact_offsets.add(source_task)
        else:
            self._without_exact_offsets.discard(source_task)

    def forget(self, source_task: int) -> None:
        """The source task was released."""
        self._without_exact_offsets.discard(source_task)

    def take_permitted(self, now: float) -> set[int]:
        """Return source tasks whose leases lack something that the target permits now.

        Starts a round if one is due. ``now`` is in seconds of the event loop's clock.
        """
        lacking = self._without_exact_offsets.union(self._producers.unfenced)
        found, self._permitted = self._permitted & lacking, set()
        if not lacking:
            self._check_at = None
        elif self._check_at is None:
            self._check_at = now + CHECK_EVERY_S
        elif now >= self._check_at and (self._round is None or self._round.done()):
            self._check_at = now + CHECK_EVERY_S
            self._round = asyncio.create_task(self._check(), name=f"{self._flow} what leases lack")
        return found

    async def close(self) -> None:
        """End the current round."""
        if self._round is not None:
            await cancel_and_wait([self._round])

    async def _check(self) -> None:
        try:
            if self._without_exact_offsets:
                await self._builder.refresh_exact_offsets()
                if not self._builder.lacks_exact_offsets:
                    self._permit(self._without_exact_offsets)
            for source_task in sorted(self._producers.unfenced, key=lambda one: (one <= self._asked, one)):
                self._asked = source_task
                if not await self._producers.fences_again(source_task):
                    return
                self._permit([source_task])
        except Exception:
            log.exception(
                "%s: unexpected error while looking whether the target permits fencing and exact offsets; retrying in"
                " %.0f s",
                self._flow,
                CHECK_EVERY_S,
            )

    def _permit(self, source_tasks: Iterable[int]) -> None:
        self._permitted.update(source_tasks)
        self._changed()
