"""SQL lanes: their two Python processes, and a query with its counterpart in Python."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.lab.history import Record
from tests.lab.lanes import lanes
from tests.lab.node import Node

QUERY = (
    "SELECT concat(CAST(value AS STRING), ' from ', topic, '-', partition, '@', offset) AS value FROM records"
    " WHERE CAST(split_part(CAST(value AS STRING), ' ', 1) AS BIGINT) % 5 <> 3"
)
"""For records of `tests.lab.load.Load`, which begin with their number: drops a fifth, and appends their positions."""


def queried(topic: str, record: Record) -> Record | None:
    """Return what `QUERY` makes of a record of this topic; None if it drops it."""
    key, value, headers, timestamp = record.content
    assert value is not None
    if int(value.split(b" ")[0]) % 5 == 3:
        return None
    changed = b"%b from %b-%d@%d" % (value, topic.encode(), record.partition, record.offset)
    return Record(record.partition, record.offset, (key, changed, headers, timestamp))


def runners(node: Node) -> list[psutil.Process]:
    """Return the processes of a node that run SQL lanes."""
    return [one for one in lanes(node) if is_runner(one)]


def feeders(node: Node) -> list[psutil.Process]:
    """Return the processes of a node that decode records for SQL lanes."""
    return [one for one in lanes(node) if is_feeder(one)]


def is_runner(worker: psutil.Process) -> bool:
    """Return whether this Python worker of Spark listens for a feeder (flows/sql/lane_workers.py)."""
    return any(path.endswith(".sock") for path in _unix_sockets(worker))


def is_feeder(worker: psutil.Process) -> bool:
    """Return whether it has a connection to a lane runner. Plain lanes have Unix sockets as well, those of asyncio."""
    return bool(_unix_sockets(worker)) and not _runs_asyncio(worker)


def _unix_sockets(worker: psutil.Process) -> list[str]:
    """Return the path of each Unix socket of the process, empty if it has none."""
    try:
        return [str(one.laddr) for one in worker.net_connections("unix")]
    except psutil.NoSuchProcess:
        return []


def _runs_asyncio(worker: psutil.Process) -> bool:
    try:
        return any("eventpoll" in str(file.readlink()) for file in Path(f"/proc/{worker.pid}/fd").iterdir())
    except OSError:  # it has ended, or a file was closed
        return True
