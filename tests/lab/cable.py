"""A TCP path to a server that can be cut silently, as in a network partition, and healed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from mm2.core.settings.client import SecurityProtocol
from tests.lab.listeners import Listener
from tests.lab.ports import HOST, release_port, reserve_port

CUT_OFF = "CUTOFF"  # name of a listener that clients reach through cables only
CHUNK = 65_536  # bytes forwarded at a time
WAITING = 64 * 1024 * 1024  # bytes that a direction holds while it is cut; when full, a reset would not be noticed
STARTS = 10.0  # seconds until its port is open, on busy cores


class Cable:
    """Listens on its own port and forwards bytes to `plug`'s server in both directions.

        While it is `cut` nothing passes and nothing is closed: connections stall, and new ones are accepted without a
    response, so that clients have to time out. After `heal` everything continues, as with TCP retransmission: what a
    sender that has reset its connection meanwhile had sent is lost. ``bytes_per_s`` is the rate of each direction of
    each connection, and ``delay_s`` the time that bytes need in each direction, however many are on their way. One
    thread serves all connections.
    """

    def __init__(self, name: str, *, bytes_per_s: int | None = None, delay_s: float = 0.0) -> None:
        self.name = name
        self._bytes_per_s = bytes_per_s
        self._delay_s = delay_s
        self.port = reserve_port()
        self._server = ("", 0)
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._whole.set()
        self._open = threading.Event()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"cable {name}")

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"{HOST}:{self.port}"

    def plug(self, address: str) -> None:
        """Forward to the server at ``host:port`` from now on."""
        host, _, port = address.rpartition(":")
        self._server = (host, int(port))

    def cut(self) -> None:
        """Stop forwarding."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def heal(self) -> None:
        """Forward waiting and new bytes."""
        self._loop.call_soon_threadsafe(self._whole.set)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._open.wait(STARTS), f"{self} does not listen on {self.address}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        release_port(self.port)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        listening = await asyncio.start_server(self._carry, HOST, self.port, limit=WAITING)
        self._open.set()
        await self._ending.wait()
        listening.close()  # connections end with the loop

    async def _carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        with contextlib.suppress(OSError):
            server, to_server = await asyncio.open_connection(*self._server, limit=WAITING)
            try:
                await asyncio.gather(self._pump(client, to_server), self._pump(server, to_client))
            finally:
                to_server.close()
        to_client.close()

    async def _delayed(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Yield what is read, `delay_s` later, until the reader's side is closed."""
        loop = asyncio.get_running_loop()
        on_their_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            chunk = b" "
            try:
                while chunk:
                    chunk = await reader.read(CHUNK)
                    on_their_way.put_nowait((loop.time() + self._delay_s, chunk))
            except OSError:
                on_their_way.put_nowait((loop.time(), b""))

        reading = asyncio.create_task(read())
        try:
            while True:
                due, chunk = await on_their_way.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not chunk:
                    return
                yield chunk
        finally:
            reading.cancel()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward until the reader's side is closed, then close the writer's."""
        try:
            if self._delay_s:
                async for chunk in self._delayed(reader):
                    writer.write(chunk)
                return
            while chunk := await reader.read(CHUNK):
                await self._whole.wait()
                if reader.exception() is not None:
                    break
                writer.write(chunk)
                await writer.drain()
                if self._bytes_per_s is not None:
                    await asyncio.sleep(len(chunk) / self._bytes_per_s)
        finally:
            await self._whole.wait()
            writer.close()


def listener_behind(*cables: Cable) -> Listener:
    """Return listener `CUT_OFF`, whose clients use one of ``cables`` for each broker."""
    advertised = tuple(cable.address for cable in cables)
    return Listener(protocol=SecurityProtocol.PLAINTEXT, name=CUT_OFF, advertised=advertised)
