"""A proxy that closes a connection after the server has executed a request, but before the response arrives."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

EXECUTED = 0.3  # seconds for the server to execute the request; its response is discarded


class CuttingProxy:
    """Forwards bytes until a client's first match ``pattern``, then closes that connection."""

    def __init__(self, server: str, pattern: bytes) -> None:
        self._host, _, port = server.rpartition(":")
        self._port = int(port)
        self._pattern = re.compile(pattern)
        self.cuts = 0
        self.address = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CuttingProxy]:
        listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with listening:
            yield self
        await listening.wait_closed()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(self._host, self._port)
        answering = asyncio.create_task(_pump(server, to_client))
        try:
            with contextlib.suppress(ConnectionError):
                while chunk := await client.read(65_536):
                    cut = not self.cuts and self._pattern.search(chunk) is not None
                    if cut:
                        self.cuts += 1
                        answering.cancel()
                    to_server.write(chunk)
                    await to_server.drain()
                    if cut:
                        await asyncio.sleep(EXECUTED)
                        return
        finally:
            answering.cancel()
            await asyncio.wait([answering])
            to_server.close()
            to_client.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
