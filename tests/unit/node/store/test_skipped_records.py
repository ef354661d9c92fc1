from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mm2.core.naming.names import Flow
from mm2.core.settings.client import ClientSettings
from mm2.core.wire.formats import FormatError
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.skipped_records import LOG_EVERY_S, SkippedRecords
from mm2.node.store.status_store import StatusStore
from tests.unit.config import files

PROBLEM = "the batch cannot be read: records cannot be decompressed as zstd"
UNREADABLE = [
    StoredRecord(partition=0, offset=offset, key=None, value=None, timestamp=-1, problem=PROBLEM)
    for offset in range(3, 8)
]


def test_the_first_is_logged_and_then_one_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    skipped = SkippedRecords(Flow("A", "B"), "mm2-offset-syncs.B.internal", clock=lambda: now)

    def skip(count: int) -> None:
        for offset in range(count):
            record = StoredRecord(partition=0, offset=offset, key=b"k", value=None, timestamp=0)
            skipped.skip(record, FormatError("it is null"))

    skip(1000)
    assert skipped.count == 1000
    (line,) = caplog.messages
    assert "A->B: skipped a record of mm2-offset-syncs.B.internal, partition 0 offset 0: it is null (1 s" in line
    now += LOG_EVERY_S - 0.1
    skip(1)
    assert len(caplog.messages) == 1
    now += 0.2
    skip(1)
    assert "(1002 skipped so far)" in caplog.messages[-1]
    assert len(caplog.messages) == 2


async def records() -> AsyncIterator[StoredRecord]:
    for one in UNREADABLE:
        yield one
    yield StoredRecord(partition=0, offset=8, key=None, value=b"not ours", timestamp=0)


async def test_batches_that_cannot_be_read_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    taken: list[StoredRecord] = []
    skipped = SkippedRecords(Flow("A", "B"), "mm2-offsets.A.internal")
    await skipped.apply(records(), taken.append, step=2)
    assert [one.offset for one in taken] == [8]
    assert skipped.count == 5
    line = f"A->B: skipped a record of mm2-offsets.A.internal, partition 0 offset 3: {PROBLEM} (1 skipped so far)"
    assert caplog.messages == [line]


async def test_stores_that_ignore_other_keys_count_batches_that_cannot_be_read(tmp_path: Path) -> None:
    statuses = StatusStore(Flow("A", "B"), "mm2-status.A.internal")
    async with Cluster(ClientSettings(bootstrap_servers=("localhost:1",))) as cluster:
        configs = ConfigStore(files.flow(tmp_path), cluster, on_change=lambda: None, on_command=lambda _: None)
    async for one in records():
        statuses.take(one)
    await configs.skipped.apply(records(), configs._take, step=1)
    assert (statuses.skipped.count, configs.skipped.count) == (5, 5)
