"""The rows of the benchmark of long links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tests.bench.links.wire import Link

AUTOMATIC = {"socket.send.buffer.bytes": "-1", "socket.receive.buffer.bytes": "-1"}
"""The kernel sizes the brokers' socket buffers. Kafka's default, 100 KiB, carries about 1.5 MB/s for each connection at
85 ms, whoever asks."""


class Far(StrEnum):
    """Which cluster is far from the node."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """``goal``: the share of the link's rate; ``times_java``: at least so many times the rate of Java's defaults.
    ``megabytes``: the backlog, which should take 15 seconds or more."""

    name: str
    far: Far
    link: Link
    partitions: int = 6
    broker: Mapping[str, str] = field(default_factory=lambda: AUTOMATIC)
    megabytes: int = 800
    goal: float | None = None
    times_java: float | None = None


def _rows() -> tuple[Row, ...]:
    rows = []
    for far in Far:
        for ms, rate, goal, times in ((85, 50e6, 0.8, 3.0), (150, 50e6, 0.7, None), (85, 125e6, 0.7, None)):
            link = Link(round_trip_s=ms / 1000, rate=rate)
            name = f"{far}-{ms}ms-{rate / 1e6:.0f}MB"
            rows.append(Row(name=name, far=far, link=link, goal=goal, times_java=times, megabytes=int(rate / 1e6 * 18)))
        link = Link(round_trip_s=0.085, rate=50e6)
        rows.append(Row(name=f"{far}-default-buffers", far=far, link=link, broker={}, times_java=3.0, megabytes=300))
        for ms, goal in ((85, 0.8), (150, 0.8 if far is Far.SOURCE else 0.55)):
            link = Link(round_trip_s=ms / 1000, rate=50e6)
            rows.append(Row(name=f"{far}-one-{ms}ms", far=far, link=link, partitions=1, goal=goal))
        for partitions in (1, 6):
            link = Link(round_trip_s=0.085, rate=50e6, loss=0.005)
            name = f"{far}-loss-{partitions}"
            rows.append(Row(name=name, far=far, link=link, partitions=partitions, times_java=5.0, megabytes=200))
    return tuple(rows)


ROWS = _rows()
