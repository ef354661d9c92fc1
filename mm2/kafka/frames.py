"""A connection that reads whole answers as they arrive, and writes a request in one piece.

aiokafka reads through a stream and a task of its own, which wakes twice for each answer, and puts a timer around each
request. Where requests are many and small that is most of what a request costs. Everything about opening, SASL and
closing is aiokafka's.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
import weakref
from typing import Any

import aiokafka.errors as aiokafka_errors
from aiokafka.conn import AIOKafkaConnection, CloseReason

from mm2.kafka.raw_request import RawRequest

log = logging.getLogger("mm2.connection")

_LENGTH = struct.Struct(">i")


class FramedConnection(AIOKafkaConnection):  # type: ignore[misc]
    """A. Answers are given out in the order of the requests, each when its last byte has come.
    B. When the peer is gone, or says what cannot be read, every request under way fails with KafkaConnectionError, and
       its cause says why.
    """

    def send(self, request: Any, expect_response: bool = True) -> Any:
        """Write the request; awaiting what comes back gives the answer, whenever that is: the caller limits the wait.

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

    def _create_reader_task(self) -> asyncio.Future[None]:
        """Nothing has been asked yet: from here on what comes goes to `_Frames`, and no task reads."""
        _Frames(self, self._protocol, self._reader).take_over(self._writer.transport)
        nobody_reads: asyncio.Future[None] = self._loop.create_future()
        nobody_reads.set_result(None)
        return nobody_reads

    def _handle_frame(self, frame: bytes) -> None:
        number, request, answered = self._requests[0]
        if not isinstance(request, RawRequest):
            super()._handle_frame(frame)
            return
        came = request.answers(frame)
        if came != number:
            raise aiokafka_errors.CorrelationIdError(f"sent request {number}, got the answer to {came}")
        if not answered.done():  # else nobody waits for it any more
            answered.set_result(request.decode(frame))
        self._last_action = time.monotonic()
        self._requests.popleft()


class AnswerCutter:
    """Cuts a stream of bytes into answers, each of which comes after its length (int32)."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._have = 0  # bytes in the pieces
        self._size: int | None = None  # of the answer that the pieces begin with; None: they begin with its length

    @property
    def wanted(self) -> int:
        """Bytes of what comes next, a length or an answer."""
        return _LENGTH.size if self._size is None else self._size

    def feed(self, data: bytes) -> list[bytes]:
        """The answers that are complete with these bytes. Raises ValueError for a length that cannot be."""
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
                    raise ValueError(f"an answer of {self._size} bytes")
            else:
                until = at + self._size
                answers.append(data[at:until])
                self._size, at = None, until
        self._pieces, self._have = ([data[at:]] if at < end else []), end - at
        return answers


class _Frames(asyncio.Protocol):
    """Hands answers on as they arrive. Everything else goes to the stream, which knows when there is room to write."""

    def __init__(self, owner: FramedConnection, stream: asyncio.StreamReaderProtocol, reader: Any) -> None:
        self._owner = weakref.ref(owner)
        self._stream = stream
        self._reader = reader
        self._cutter = AnswerCutter()

    def take_over(self, transport: asyncio.Transport) -> None:
        """Hear what this transport says from now on, and what it has said already."""
        transport.set_protocol(self)
        early, self._reader._buffer = bytes(self._reader._buffer), bytearray()
        if early:
            self.data_received(early)
        if self._reader.at_eof() or self._reader.exception() is not None:
            # soon: whoever connects asks something first, and learns it by that
            asyncio.get_running_loop().call_soon(self._gone, self._reader.exception())

    def data_received(self, data: bytes) -> None:
        try:
            for answer in self._cutter.feed(data):
                owner = self._owner()
                if owner is None or owner._reader is None:  # closed, perhaps by what the last answer said
                    return
                owner._handle_frame(answer)
        except Exception as error:  # whatever is wrong with an answer: what follows cannot be understood either
            log.exception("an answer cannot be read")
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
