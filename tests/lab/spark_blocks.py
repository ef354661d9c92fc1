"""Reads blocks from a Spark driver as any program of the machine can: ``python -m tests.lab.spark_blocks FIRST PORT…``.

Run by root, it becomes the user nobody first. Prints one line of hexadecimal digits for each block of the broadcasts
from number FIRST on that a port has given out. A task of a lane is such a block.

The protocol is that of Spark's block manager (network-common's MessageEncoder, network-shuffle's OpenBlocks):

frame     = length (8 bytes, with itself), type (1 byte), body
request   = type 3, id (8), size (4), OpenBlocks: 0, application, executor, count (4), names of blocks
response  = type 4, id (8), size (4), StreamHandle: 3, stream (8), chunks (4)
fetch     = type 0, stream (8), chunk (4);  fetched = type 1, stream (8), chunk (4), the block
text      = length (4), UTF-8
"""

from __future__ import annotations

import asyncio
import contextlib
import encodings.idna  # noqa: F401 - a connection needs it, and nobody may not be able to read its directory
import os
import socket
import struct
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator

import psutil

from tests.lab.commands import ROOT

BLOCKS = 16  # broadcasts have numbers from 0; a lane that starts has one of the first
LONGEST = 16 * 1024 * 1024  # bytes of a frame: a task of a lane has some kilobytes
WITHIN = 5.0  # seconds for an answer of a process on this machine
READS = 60.0  # seconds: the reader asks some ports for some blocks
NOBODY = 65534

_FETCH, _FETCHED, _REQUEST, _RESPONSE = 0, 1, 3, 4
_OPEN_BLOCKS = 0


def _text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def _frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">qb", 9 + len(body), kind) + body


def _receive(connection: socket.socket) -> tuple[int, bytes]:
    """Return the type and the body of the next frame. Raises ConnectionError, or TimeoutError as `block`."""
    length, kind = struct.unpack(">qb", _exactly(connection, 9))
    if not 9 <= length <= LONGEST:
        raise TimeoutError("what answers speaks another protocol, such as http")
    return kind, _exactly(connection, length - 9)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (more := connection.recv(size - len(found))):
            raise ConnectionResetError("closed")
        found += more
    return found


def block(port: int, name: str) -> bytes | None:
    """Return a block of the block manager that listens on a port of this machine; None if it does not give it out.

    Raises TimeoutError if nothing answers, as what listens speaks another protocol.
    """
    opened = bytes([_OPEN_BLOCKS]) + _text("local") + _text("driver") + struct.pack(">i", 1) + _text(name)
    try:
        with socket.create_connection(("127.0.0.1", port), WITHIN) as connection:
            connection.sendall(_frame(_REQUEST, struct.pack(">qi", 1, len(opened)) + opened))
            kind, answer = _receive(connection)
            if kind != _RESPONSE:
                return None
            (stream,) = struct.unpack_from(">q", answer, 8 + 4 + 1)
            connection.sendall(_frame(_FETCH, struct.pack(">qi", stream, 0)))
            kind, answer = _receive(connection)
    except (ConnectionError, struct.error):
        return None
    return answer[12:] if kind == _FETCHED else None


def blocks(ports: list[int], first: int) -> Iterator[bytes]:
    """Yield the blocks of broadcasts from number ``first`` on that any of the ports gives out."""
    for port in ports:
        with contextlib.suppress(TimeoutError):
            found = (block(port, f"broadcast_{number}_piece0") for number in range(first, first + BLOCKS))
            yield from (one for one in found if one is not None)


async def read_as_nobody(jvm_pid: int, *, first: int = 0) -> list[bytes]:
    """Return the blocks that another user reads from the ports of Spark's JVM."""
    connections = psutil.Process(jvm_pid).net_connections("tcp")
    ports = [str(one.laddr.port) for one in connections if one.status == psutil.CONN_LISTEN]
    assert len(ports) >= 2, "at least the driver and its block manager listen"
    command = (sys.executable, "-m", "tests.lab.spark_blocks", str(first), *ports)
    reader = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)
    async with asyncio.timeout(READS):
        found, _ = await reader.communicate()
    assert reader.returncode == 0
    return [bytes.fromhex(line) for line in found.decode().split()]


def main() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    first, *ports = map(int, sys.argv[1:])
    for found in blocks(ports, first):
        print(found.hex())


if __name__ == "__main__":
    main()
