"""The lane runner's connection to the feeder of its query."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from hmac import compare_digest
from typing import NamedTuple, Protocol

from mm2.core.lanes.query_trials import FrameSpan

_CREDENTIALS = struct.Struct("3i")  # pid, uid and gid (unix(7))

WRITTEN_BYTES = 256 * 1024
"""Frames are written together up to this size."""


GATHERED_S = 0.004
"""Frames that are sent within this time after others were written are written together: a burst costs about half a
millisecond of CPU time in the processes of the query, however small it is."""


class QueuedFrame(NamedTuple):
    """The bytes of a frame. It is left out if it is not wanted any more when its turn comes."""

    number: int
    pieces: Sequence[bytes | memoryview]
    is_wanted: Callable[[], bool]
    span: FrameSpan


class FrameTurns(Protocol):
    """Whether frames pass through the query one after the other."""

    @property
    def is_ordered(self) -> bool:
        """Whether they do now."""

    def turn(self, span: FrameSpan) -> AbstractAsyncContextManager[None]:
        """Announce the next frame, and wait until it may pass; at the end, nothing is in the query.

        The turn is given back also if the task is cancelled in it, or while it waits for it.
        """

    async def returned(self, number: int) -> None:
        """Wait until the frame with this number has returned from the query."""


class FeederLink:
    """Listens on a Unix socket for the feeder, and writes frames as fast as it reads them, or one after the other."""

    def __init__(
        self,
        path: str,
        token: str,
        left_out: Callable[[int], None],
        turns: FrameTurns,
        *,
        gathered_s: float = GATHERED_S,
    ) -> None:
        """``left_out`` is called with the number of each frame that is not sent."""
        self._turns = turns
        self._gathered_s = gathered_s
        self._path = path
        self._token = token
        self._left_out = left_out
        self._frames: deque[QueuedFrame] = deque()
        self._added = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._writing: asyncio.Task[None] | None = None
        self._pid: int | None = None
        self._closed = False
        self.connected_at: float | None = None

    @property
    def feeder_pid(self) -> int | None:
        """The process of the feeder; None: it is not connected, or the system does not tell."""
        return self._pid

    async def open(self) -> None:
        """Start to listen."""
        self._unlink()  # a socket of an earlier attempt
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, self._path)
        finally:
            os.umask(mask)

    def send(self, frame: QueuedFrame) -> None:
        """Write the frame after those before it."""
        self._frames.append(frame)
        self._added.set()

    def close(self) -> None:
        """Cut the connection, whatever is still to be written: the feeder ends."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        if self._writing is not None:
            self._writing.cancel()
        if self._writer is not None:
            self._writer.transport.abort()
        self._unlink()

    def kill_feeder(self) -> None:
        """End the feeder's process, which does not react. Spark's JVM waits for it before it notices anything else."""
        if self._pid is not None and self._pid != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, signal.SIGKILL)

    def _unlink(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        token = await reader.readline()
        is_feeder = compare_digest(token.strip(), self._token.encode())
        if self._closed or self._writer is not None or not is_feeder:
            writer.close()
            return
        self._writer, self._pid, self.connected_at = writer, _peer(writer), time.monotonic()
        self._writing = asyncio.create_task(self._write(writer), name="frames")

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        written_at = 0.0
        with contextlib.suppress(ConnectionError):  # the query has ended, which its rows tell
            while True:
                await self._added.wait()
                await asyncio.sleep(max(0.0, written_at + self._gathered_s - time.monotonic()))
                self._added.clear()
                while self._frames:
                    if self._turns.is_ordered:
                        await self._write_alone(writer)
                    else:
                        writer.writelines(self._next())
                        await writer.drain()
                written_at = time.monotonic()

    async def _write_alone(self, writer: asyncio.StreamWriter) -> None:
        """Write the next frame, announced, and wait until it has returned."""
        frame = self._frames.popleft()
        if not frame.is_wanted():
            self._left_out(frame.number)
            return
        async with self._turns.turn(frame.span):
            writer.writelines(frame.pieces)
            await writer.drain()
            await self._turns.returned(frame.number)

    def _next(self) -> list[bytes | memoryview]:
        """Return the bytes to write next: of one large frame, or of several small ones, which pass through together."""
        pieces: list[bytes | memoryview] = []
        size = 0
        while self._frames and size < WRITTEN_BYTES:
            frame = self._frames.popleft()
            if frame.is_wanted():
                pieces += frame.pieces
                size += sum(map(len, frame.pieces))
            else:
                self._left_out(frame.number)
        return pieces


def _peer(writer: asyncio.StreamWriter) -> int | None:
    """Return the process at the other end (Linux only)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    connection = writer.get_extra_info("socket")
    pid: int = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0]
    return pid
