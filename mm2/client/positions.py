"""Clients that translate positions of a flow: `AsyncPositionClient`, and `PositionClient` for code without asyncio."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from mm2.client.config import ConfigInvalid
from mm2.client.mirror_client import TIMEOUT, SynchronousClient
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.core.positions.positions import Position, PositionAnswers
from mm2.node.checkpoint.position_service import PositionService


class AsyncPositionClient:
    """Translates positions of one flow of an mm2.properties file, as ``mm2 translate`` does. Async context manager.

    It reads both clusters, or the target alone if the source does not answer. It keeps what it has read, and reads only
    what is new for later calls. It writes nothing and joins no consumer group. Many tasks can use one client at a time.
    """

    def __init__(self, path: str | Path, flow: str, *, timeout: float = TIMEOUT) -> None:
        """Read the file without connecting. ``flow`` is for example ``A->B``; a disabled one will do, too. ``timeout``
        limits each call, in seconds.

        Raises ConfigInvalid if the file has errors, or no such flow.
        """
        self._settings = _flow_settings(Path(path), flow)
        self._timeout = timeout
        self._service: PositionService | None = None

    async def __aenter__(self) -> Self:
        self._service = PositionService(self._settings, answer_s=self._timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, and release the memory."""
        service, self._service = self._service, None
        if service is not None:
            await service.close()

    async def translate(self, positions: Iterable[Position], *, reverse: bool = False) -> PositionAnswers:
        """Return where positions on the source are on the target; with ``reverse`` the other way round.

        A position is the next offset to read. No answer skips a copied record. Raises PositionRejectedError for a topic
        that the flow does not copy and for a partition that the target does not have, and PositionsUnreadableError if
        the target does not answer, or not within the timeout; its ``__cause__`` is the ClusterError, if there is one.
        """
        if self._service is None:
            raise RuntimeError("use the client in an async with statement")
        return await self._service.translate(list(positions), reverse=reverse)


class PositionClient(SynchronousClient):
    """Synchronous `AsyncPositionClient` with the same results and errors. Context manager.

    It has its own event loop and thread from its construction to ``close``, and can be used by several threads.
    """

    def __init__(self, path: str | Path, flow: str, *, timeout: float = TIMEOUT) -> None:
        """See `AsyncPositionClient`."""
        self._client = AsyncPositionClient(path, flow, timeout=timeout)
        super().__init__(self._client, "mm2-positions")

    def translate(self, positions: Iterable[Position], *, reverse: bool = False) -> PositionAnswers:
        """See `AsyncPositionClient.translate`."""
        return self._loop.ask(self._client.translate(positions, reverse=reverse))


def _flow_settings(path: Path, flow: str) -> FlowSettings:
    loaded = load(path)
    if loaded.settings is None:
        raise ConfigInvalid(tuple(str(one) for one in loaded.problems if not one.is_warning))
    flows = {str(one.flow): one for one in loaded.settings.flows}
    found = flows.get(flow.replace(" ", ""))
    if found is None:
        raise ConfigInvalid((f"{path}: error: no flow {flow} (fix: use one of its flows: {', '.join(flows)})",))
    return found
