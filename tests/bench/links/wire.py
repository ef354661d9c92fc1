"""A link between two network namespaces: a TUN device on each side, and this process carries the packets.

The kernel's own emulation (netem) is not built everywhere. TCP is the kernel's on both sides, so that windows, slow
start, losses and repeats are real; only delay, rate and drops are made here.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MTU = 9_000
"""Jumbo frames: a sixth of the packets of an Ethernet link, so that 50 MB/s cost a tenth of a core."""

QUEUE_S = 0.2
"""How much may wait for the link before packets are dropped: two round trips or so, as in real routers."""

SETTINGS = (
    "net.ipv4.tcp_rmem=4096 131072 33554432",  # docs/how-to/long-links.md recommends these limits
    "net.ipv4.tcp_wmem=4096 65536 33554432",
)

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_TURN = 64  # packets read from one side before the other one is looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """``round_trip_s`` in seconds, ``rate`` in bytes per second each way, ``loss`` the share of packets dropped."""

    round_trip_s: float
    rate: float
    loss: float = 0.0

    def __str__(self) -> str:
        lost = f", {self.loss:.1%} lost" if self.loss else ""
        return f"{self.round_trip_s * 1000:.0f} ms, {self.rate / 1e6:.0f} MB/s{lost}"


def run(*command: str) -> None:
    """Run a command of iproute2. Raises CalledProcessError."""
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def namespace(name: str) -> Iterator[str]:
    """A network namespace with a loopback device, during the block."""
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "set", "lo", "up")
        for setting in SETTINGS:
            run("ip", "netns", "exec", name, "sysctl", "-q", "-w", setting)
        yield name
    finally:
        run("ip", "netns", "del", name)


@contextmanager
def near(one: str, other: str, network: str) -> Iterator[None]:
    """Connect two namespaces without delay: ``network``.1 in ``one``, ``network``.2 in ``other``."""
    run("ip", "link", "add", "nearby0", "netns", one, "type", "veth", "peer", "name", "nearby1", "netns", other)
    for name, device, last in ((one, "nearby0", 1), (other, "nearby1", 2)):
        run("ip", "-n", name, "address", "add", f"{network}.{last}/24", "dev", device)
        run("ip", "-n", name, "link", "set", device, "up")
    yield


@contextmanager
def far(one: str, other: str, network: str, link: Link) -> Iterator[Wire]:
    """Connect two namespaces by ``link``: ``network``.1 in ``one``, ``network``.2 in ``other``."""
    files = []
    for name, last in ((one, 1), (other, 2)):
        files.append(_tun(name, "faraway"))
        run("ip", "-n", name, "address", "add", f"{network}.{last}/24", "dev", "faraway")
        run("ip", "-n", name, "link", "set", "faraway", "mtu", str(MTU), "txqueuelen", "10000", "up")
        run("ip", "-n", name, "route", "replace", f"{network}.0/24", "dev", "faraway", "congctl", "cubic")
    wire = Wire(files[0], files[1], link)
    wire.start()
    try:
        yield wire
    finally:
        wire.stop()
        for file in files:
            os.close(file)


def _tun(name: str, device: str) -> int:
    """Open a TUN device in a namespace; the file can be used from anywhere."""
    found: list[int | OSError] = []

    def opened() -> None:
        try:
            _enter(name)
            file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI))
            found.append(file)
        except OSError as error:
            found.append(error)

    worker = threading.Thread(target=opened)  # setns changes the thread
    worker.start()
    worker.join()
    (file,) = found
    if isinstance(file, OSError):
        raise file
    return file


def _enter(name: str) -> None:
    with open(f"/var/run/netns/{name}") as into:
        if ctypes.CDLL(None, use_errno=True).setns(into.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {name}")


class _Direction:
    """Packets on their way from one device to the other."""

    def __init__(self, source: int, target: int, link: Link) -> None:
        self.source, self.target = source, target
        self._link = link
        self._random = random.Random(17)
        self._free_at = 0.0
        self.under_way: deque[tuple[float, bytes]] = deque()
        self.carried = self.dropped = 0

    def take(self) -> None:
        """Read what has been sent."""
        link = self._link
        for _ in range(_TURN):
            try:
                packet = os.read(self.source, MTU + 64)
            except BlockingIOError:
                return
            now = time.monotonic()
            start = max(now, self._free_at)
            if start - now > QUEUE_S or (link.loss and self._random.random() < link.loss):
                self.dropped += 1
                continue
            self._free_at = start + len(packet) / link.rate
            self.under_way.append((self._free_at + link.round_trip_s / 2, packet))

    def deliver(self) -> None:
        """Write what has arrived."""
        now = time.monotonic()
        while self.under_way and self.under_way[0][0] <= now:
            _, packet = self.under_way.popleft()
            try:
                os.write(self.target, packet)
                self.carried += len(packet)
            except BlockingIOError:
                self.dropped += 1


class Wire:
    """Carries packets in a process of its own, so that the measuring process does not delay them."""

    def __init__(self, one: int, other: int, link: Link) -> None:
        self._ways = _Direction(one, other, link), _Direction(other, one, link)
        self._process: int | None = None

    def start(self) -> None:
        """Carry packets until `stop`."""
        self._process = os.fork()
        if self._process == 0:
            try:
                os.nice(-10)
                self._carry()
            finally:
                os._exit(0)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            os.kill(self._process, 9)
            os.waitpid(self._process, 0)
            self._process = None

    def _carry(self) -> None:
        poll = select.poll()
        for way in self._ways:
            poll.register(way.source, select.POLLIN)
        while True:
            due = min((way.under_way[0][0] for way in self._ways if way.under_way), default=None)
            wait_ms = 1_000.0 if due is None else max(0.0, (due - time.monotonic()) * 1_000)
            poll.poll(int(wait_ms) if wait_ms >= 1 else 0)
            for way in self._ways:
                way.take()
                way.deliver()
