"""Positions for clients of a node. It reads the map when it is first asked, and keeps it while it is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from mm2.config.settings import FlowSettings
from mm2.core.plugins import PluginError
from mm2.core.positions.positions import Position, PositionAnswers, PositionsUnreadableError
from mm2.kafka.errors import ClusterError, SecuritySettingsInvalid
from mm2.node.checkpoint.flow_positions import FlowPositions, open_flow_positions
from mm2.node.common.cancelling import cancel_and_wait

FRESH_S = 1.0
"""How long it answers from what it has read: however many clients ask, the clusters are asked once a second."""

ANSWER_S = 25.0
"""How long a client waits at most: less than the 30 s after which many of them give up. Reading continues meanwhile."""

IDLE_S = 600.0
"""After this time without a request, the memory of the map is released."""


class PositionService:
    """Translates positions of one flow, on any node of it, whichever tasks it runs.

    Invariants: (A) the map is read by at most one task at a time, which a client that gives up does not cancel, since
    records that were read would be missing. (B) What was read is older than `FRESH_S` only while the clusters are being
    asked. (C) An error discards what was read.

    Used on one event loop by any number of tasks. ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        answer_s: float = ANSWER_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._answer_s = answer_s
        self._idle_s = idle_s
        self._using = asyncio.Lock()
        self._opened: AsyncExitStack | None = None
        self._positions: FlowPositions | None = None
        self._reading: asyncio.Task[None] | None = None
        self._releasing: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        self._read_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether it has the map in memory."""
        return self._positions is not None

    def use(self, settings: FlowSettings) -> None:
        """Use these settings from the next request on."""
        self._settings = settings

    async def translate(self, positions: Sequence[Position], *, reverse: bool) -> PositionAnswers:
        """Return where positions on the source are on the target; with ``reverse`` the other way round.

        Raises PositionRejectedError, and PositionsUnreadableError with the reason.
        """
        self._asked.set()
        try:
            async with asyncio.timeout(self._answer_s), self._using:
                flow = await self._current()
                for rejection in await flow.rejections(positions, reverse=reverse):
                    if rejection is not None:
                        raise rejection
                rows = await flow.translate(positions, reverse=reverse)
                return PositionAnswers(rows=rows, notes=flow.notes)
        except TimeoutError:
            raise PositionsUnreadableError(
                f"{self._settings.flow}: the exact offset map could not be read within {self._answer_s:.0f} s; it is"
                " read further, so ask again"
            ) from None
        except (ClusterError, SecuritySettingsInvalid, PluginError) as error:
            raise PositionsUnreadableError(
                f"cannot translate positions of {self._settings.flow} on this node: {error}"
            ) from error

    async def _current(self) -> FlowPositions:
        if self._reading is None or (self._reading.done() and self._clock() - self._read_at >= FRESH_S):
            self._reading = asyncio.create_task(self._read(), name=f"{self._settings.flow} read positions")
            self._reading.add_done_callback(_retrieve_error)
        await asyncio.shield(self._reading)
        assert self._positions is not None
        return self._positions

    async def _read(self) -> None:
        try:
            if self._positions is not None and self._positions.settings is not self._settings:
                await self._release()
            if self._positions is None:
                self._opened = AsyncExitStack()
                self._positions = await self._opened.enter_async_context(open_flow_positions(self._settings))
            await self._positions.read()
        except BaseException:
            await self._release()
            raise
        finally:
            self._read_at = self._clock()
        if self._releasing is None or self._releasing.done():
            name = f"{self._settings.flow} release positions"
            self._releasing = asyncio.create_task(self._release_when_idle(), name=name)

    async def _release(self) -> None:
        opened, self._opened, self._positions = self._opened, None, None
        if opened is not None:
            await opened.aclose()

    async def _release_when_idle(self) -> None:
        try:
            while True:
                self._asked.clear()
                async with asyncio.timeout(self._idle_s):
                    await self._asked.wait()
        except TimeoutError:
            pass
        async with self._using:
            if self._reading is not None:
                await asyncio.wait([self._reading])
            self._reading = None
            await self._release()

    async def close(self) -> None:
        """Close all connections, and release the memory. A later request opens it again."""
        await cancel_and_wait([one for one in (self._reading, self._releasing) if one is not None])
        self._reading = self._releasing = None
        await self._release()


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """Mark an error as seen: all who waited for it can have given up."""
    if not task.cancelled():
        task.exception()
