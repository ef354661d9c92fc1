"""A connection that reads whole responses as they arrive, and writes a request in one piece.

aiokafka reads through a stream and a task of its own, which wakes up twice for each response, and sets a timer for each
request. For many small requests that is most of their cost. It also opens the socket without a choice of its buffers.
Versions and closing are left to aiokafka.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
import time
import weakref
from typing import Any

import aiokafka.errors as aiokafka_errors
from aiokafka.conn import READER_LIMIT, AIOKafkaConnection, AIOKafkaProtocol, CloseReason

from mm2.kafka.connection.sockets import SocketBuffers, open_transport, round_trip_s
from mm2.kafka.protocol.raw_request import RawRequest

log = logging.getLogger(__name__)

_LENGTH = struct.Struct(">i")


class FramedConnection(AIOKafkaConnection):  # type: ignore[misc]
    """aiokafka's connection with a faster path for sending and receiving.

    A. Responses are delivered in the order of the requests, each as soon as its last byte has arrived.
    B. When the peer closes the connection, or a response cannot be decoded, every request in flight fails with
       KafkaConnectionError, with the reason as its cause.
    """

    def __init__(
        self, host: str, port: int, *, buffers: SocketBuffers, context: ssl.SSLContext | None, **options: Any
    ) -> None:
        """``context`` None: without TLS. ``options`` are aiokafka's."""
        protocol = "PLAINTEXT" if context is None else "SSL"  # aiokafka's SASL is not used
        super().__init__(host, port, ssl_context=context, security_protocol=protocol, **options)
        self._buffers = buffers

    @property
    def tls(self) -> ssl.SSLObject | None:
        """The TLS connection, once it is open; None without TLS."""
        return None if self._ssl_context is None else self._writer.get_extra_info("ssl_object")

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open the connection and ask for the broker's versions, as aiokafka does, on a socket with our buffers."""
        self._closed_fut = self._loop.create_future()
        reader = asyncio.StreamReader(limit=READER_LIMIT, loop=self._loop)
        protocol = AIOKafkaProtocol(self._closed_fut, reader, loop=self._loop)
        transport = await open_transport(
            protocol, self.host, self.port, context=self._ssl_context, buffers=self._buffers
        )
        self._reader, self._protocol = reader, protocol
        self._writer: Any = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        self._read_task = self._create_reader_task()
        if self._max_idle_ms is not None:
            self._idle_handle = self._loop.call_soon(self._idle_check, weakref.ref(self))
        try:
            await self._do_version_lookup()
        except BaseException:
            self.close()
            raise
        return self._reader, self._writer

    def send(self, request: Any, expect_response: bool = True) -> Any:
        """Write the request and return an awaitable for the response; the caller limits the wait.

        Raises KafkaConnectionError.
        """
        if self._writer is None:
            raise aiokafka_errors.KafkaConnectionError(f"No connection to broker at {self._host}:{self._port}")
        prepared = request.prepare(self._versions)
        number = self._next_correlation_id()
        header = prepared.build_request_header(correlation_id=number, client_id=self._client_id).encode()
        body = prepared.encode()
        try:
            self._writer.write(b"".join((_LENGTH.pack(len(header) + len(body)), header, body)))
        except OSError as error:
            self.close(reason=CloseReason.CONNECTION_BROKEN)
            raise aiokafka_errors.KafkaConnectionError(
                f"Connection at {self._host}:{self._port} broken: {error}"
            ) from error
        if not expect_response:
            return self._writer.drain()
        answered: asyncio.Future[Any] = self._loop.create_future()
        self._requests.append((number, prepared, answered))
        return answered

    @property
    def round_trip_s(self) -> float | None:
        """The round trip as TCP measures it; None: unknown."""
        return None if self._writer is None else round_trip_s(self._writer.get_extra_info("socket"))

    def _create_reader_task(self) -> asyncio.Future[None]:
        """Pass all data to `_Frames` from now on, before the first request; no task reads."""
        _Frames(self, self._protocol, self._reader).take_over(self._writer.transport)
        no_reader: asyncio.Future[None] = self._loop.create_future()
        no_reader.set_result(None)
        return no_reader

    def _handle_frame(self, frame: bytes) -> None:
        number, request, answered = self._requests[0]
        if not isinstance(request, RawRequest):
            super()._handle_frame(frame)
            return
        came = request.answers(frame)
        if came != number:
            raise aiokafka_errors.CorrelationIdError(f"sent request {number}, received the response to {came}")
        if not answered.done():  # otherwise the caller has stopped waiting
            answered.set_result(request.decode(frame))
        self._last_action = time.monotonic()
        self._requests.popleft()


class AnswerCutter:
    """Splits a stream of bytes into responses, each preceded by its length (int32)."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._have = 0  # bytes in the pieces
        self._size: int | None = None  # of the response at the start of the pieces; None: they start with its length

    @property
    def wanted(self) -> int:
        """Bytes of the next item, a length or a response."""
        return _LENGTH.size if self._size is None else self._size

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and return the responses that are now complete. Raises ValueError for an invalid length."""
        self._pieces.append(data)
        self._have += len(data)
        answers: list[bytes] = []
        if self._have < self.wanted:
            return answers
        if len(self._pieces) > 1:
            data = b"".join(self._pieces)
        at, end = 0, len(data)
        while end - at >= self.wanted:
            if self._size is None:
                (self._size,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size
                if self._size < 0:
                    raise ValueError(f"invalid response length {self._size}")
            else:
                until = at + self._size
                answers.append(data[at:until])
                self._size, at = None, until
        self._pieces, self._have = ([data[at:]] if at < end else []), end - at
        return answers


class _Frames(asyncio.Protocol):
    """Delivers responses as they arrive. All other events go to the stream, which does flow control for writing."""

    def __init__(self, owner: FramedConnection, stream: asyncio.StreamReaderProtocol, reader: Any) -> None:
        self._owner = weakref.ref(owner)
        self._stream = stream
        self._reader = reader
        self._cutter = AnswerCutter()

    def take_over(self, transport: asyncio.Transport) -> None:
        """Receive the transport's data from now on, starting with what the stream has buffered."""
        transport.set_protocol(self)
        early, self._reader._buffer = bytes(self._reader._buffer), bytearray()
        if early:
            self.data_received(early)
        if self._reader.at_eof() or self._reader.exception() is not None:
            # later: the first request, which is sent first, then fails with this
            asyncio.get_running_loop().call_soon(self._gone, self._reader.exception())

    def data_received(self, data: bytes) -> None:
        try:
            for answer in self._cutter.feed(data):
                owner = self._owner()
                if owner is None or owner._reader is None:  # closed, possibly while handling the previous response
                    return
                owner._handle_frame(answer)
        except Exception as error:  # after one bad response the rest of the stream cannot be decoded either
            log.exception("cannot read a response; closing the connection")
            self._gone(error)

    def eof_received(self) -> bool | None:
        keep_open = self._stream.eof_received()
        self._gone(None)
        return keep_open

    def connection_lost(self, error: Exception | None) -> None:
        self._stream.connection_lost(error)
        self._gone(error)

    def pause_writing(self) -> None:
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        self._stream.resume_writing()

    def _gone(self, error: BaseException | None) -> None:
        owner = self._owner()
        if owner is not None:
            cause = error or asyncio.IncompleteReadError(b"", self._cutter.wanted)
            owner.close(reason=CloseReason.CONNECTION_BROKEN, exc=cause)
