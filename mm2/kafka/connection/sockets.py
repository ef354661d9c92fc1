"""Opening TCP connections, with socket buffers of the sizes in the settings (Java: Selector.configureSocketChannel).

A buffer is set before connecting, because the window scale of TCP is agreed on then. Without a size in the settings,
asyncio opens the connection and the kernel sizes the buffers, and resizes them as the link requires.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
import sys
from dataclasses import dataclass

from mm2.core.settings.client import DEFAULT_BUFFER, ClientSettings

log = logging.getLogger(__name__)

_LINUX_FACTOR = 2  # Linux doubles the size for its own bookkeeping, and reports the double (man 7 socket)

_MIN_RTT = struct.Struct("=148xI")  # tcpi_min_rtt of struct tcp_info, in microseconds (linux/tcp.h)

_NOT_MEASURED = 2**32 - 1

_logged: set[tuple[str, str, str]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketBuffers:
    """Sizes in bytes, `DEFAULT_BUFFER` for the kernel's choice. ``client`` names cluster and client in the log."""

    client: str = ""
    send: int = DEFAULT_BUFFER
    receive: int = DEFAULT_BUFFER

    @classmethod
    def of(cls, settings: ClientSettings, client_id: str) -> SocketBuffers:
        """Return the sizes that a client asks for."""
        cluster = f"cluster {settings.alias}" if settings.alias else ",".join(settings.bootstrap_servers)
        return cls(
            client=f"{cluster}: client {client_id}",
            send=settings.send_buffer_bytes,
            receive=settings.receive_buffer_bytes,
        )

    @property
    def are_default(self) -> bool:
        """Whether the kernel sizes both."""
        return self.send == self.receive == DEFAULT_BUFFER


async def open_transport(
    protocol: asyncio.Protocol, host: str, port: int, *, context: ssl.SSLContext | None, buffers: SocketBuffers
) -> asyncio.Transport:
    """Connect to the first address of ``host`` that accepts, with TLS if there is a ``context``. Raises OSError."""
    loop = asyncio.get_running_loop()
    if buffers.are_default:
        transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=context)
        return transport
    opened = await _connect(host, port, buffers)
    transport, _ = await loop.create_connection(
        lambda: protocol, sock=opened, ssl=context, server_hostname=None if context is None else host
    )
    return transport


async def _connect(host: str, port: int, buffers: SocketBuffers) -> socket.socket:
    """Return a connected socket. As asyncio does, tries the addresses one after the other."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failures: list[OSError] = []
    for family, kind, protocol, _, address in addresses:
        try:
            return await _connect_to(socket.socket(family, kind, protocol), address, buffers)
        except OSError as error:
            failures.append(error)
    if len({str(error) for error in failures}) == 1:
        raise failures[0]
    raise OSError(f"no address of {host} accepts connections: {', '.join(map(str, failures)) or 'it has none'}")


async def _connect_to(opened: socket.socket, address: tuple[object, ...], buffers: SocketBuffers) -> socket.socket:
    try:
        opened.setblocking(False)
        _resize(opened, socket.SO_SNDBUF, "send.buffer.bytes", buffers.send, buffers.client)
        _resize(opened, socket.SO_RCVBUF, "receive.buffer.bytes", buffers.receive, buffers.client)
        await asyncio.get_running_loop().sock_connect(opened, address)
    except BaseException:
        opened.close()
        raise
    return opened


def round_trip_s(opened: socket.socket | None) -> float | None:
    """Return the smallest round trip that TCP has measured in the last minutes; None: the system does not tell.

    It is not that of the broker if a proxy is in between.
    """
    if opened is None or not sys.platform.startswith("linux"):
        return None
    try:
        info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MIN_RTT.size)
    except OSError:
        return None
    if len(info) < _MIN_RTT.size:  # a kernel before 4.6
        return None
    (microseconds,) = _MIN_RTT.unpack(info)
    return microseconds / 1_000_000 if microseconds < _NOT_MEASURED else None


def _resize(opened: socket.socket, option: int, key: str, asked: int, client: str) -> None:
    """Set the size of a buffer, and log the granted size once per client."""
    if asked == DEFAULT_BUFFER:
        return
    with contextlib.suppress(OSError):  # some kernels reject a size beyond their limit; the report shows what applies
        opened.setsockopt(socket.SOL_SOCKET, option, asked)
    report = granted_report(key, asked, opened.getsockopt(socket.SOL_SOCKET, option), sys.platform)
    if (client, key, report) not in _logged:
        _logged.add((client, key, report))
        log.info("%s: %s", client, report)


def granted_report(key: str, asked: int, granted: int, platform: str) -> str:
    """Return the message about a buffer for which the kernel reports ``granted`` bytes. ``platform``: sys.platform."""
    text = f"{key}: asked for {asked}, the kernel granted {granted}"
    is_linux = platform.startswith("linux")
    if granted >= asked * (_LINUX_FACTOR if is_linux else 1):
        return text
    limit = "net.core.wmem_max" if key.startswith("send") else "net.core.rmem_max"
    return f"{text}: raise {limit if is_linux else 'the limit of the operating system'}"
