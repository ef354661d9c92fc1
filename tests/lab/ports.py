"""Reserved free TCP ports, so that a restarted broker finds its port still free.

Ports come from below the range the system hands to outgoing connections, and each is locked by a file for as long as
this process lives, so that two test runs on one machine do not meet.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

HOST = "127.0.0.1"  # not "localhost": clients try ::1 first, where nothing listens
FIRST, LAST = 20_000, 32_000  # Linux assigns 32768 and up, macOS 49152 and up

_locks: dict[int, int] = {}


def reserve_port(wish: int | None = None) -> int:
    """A free port on the loopback address, if possible ``wish``; reserved until `release_port` or exit."""
    rendezvous = Path(tempfile.gettempdir()) / "mm2-lab-ports"
    rendezvous.mkdir(mode=0o777, exist_ok=True)
    wishes = [] if wish is None else [wish]
    for port in [*wishes, *random.sample(range(FIRST, LAST), LAST - FIRST)]:
        if port not in _locks and _lock(rendezvous / str(port), port):
            if port_is_free(port):
                return port
            release_port(port)
    raise RuntimeError(f"no free port between {FIRST} and {LAST}")


def release_port(port: int) -> None:
    """Release a reserved port."""
    os.close(_locks.pop(port))


def port_is_free(port: int) -> bool:
    """Whether a server could listen on the loopback port now. Connections in TIME_WAIT do not count: servers reuse."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def port_answers(port: int, host: str = HOST) -> bool:
    """Whether something accepts connections on the port, at this machine's loopback or another address of it."""
    with socket.socket() as probe:
        probe.settimeout(1)  # second: loopback responds immediately or not at all
        return probe.connect_ex((host, port)) == 0


def _lock(path: Path, port: int) -> bool:
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return False
    _locks[port] = handle
    return True
