"""When a leader divides mm2.max.bytes.per.second again, and by whose reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_records import SourceTaskRecord, encode_source_task
from mm2.core.assignment.source_task_reports import SourceTaskReport
from mm2.core.lanes.fetch_shares import KEY, FetchShares, FetchUse
from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import RequestTimedOut
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.node.leader.fetch_share_writer import DIVIDE_EVERY_S, FetchShareWriter
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import unconnected_cluster
from tests.lab.waiting import until
from tests.unit.config import files

LIMIT = "A->B.mm2.max.bytes.per.second = 1000000\n"


class Topic(ConfigStore):
    """A config topic in memory: what is put is read by `catch_up`."""

    def __init__(self, settings: FlowSettings) -> None:
        super().__init__(settings, unconnected_cluster(), on_change=lambda: None, on_command=lambda _: None)
        self.puts: list[bytes | None] = []
        self.failures: list[Exception] = []

    def store(self, key: bytes, value: bytes | None) -> None:
        self._take(StoredRecord(partition=0, offset=0, key=key, value=value, timestamp=0))

    def assign(self, source_task: int, partitions: int, version: int = 1) -> None:
        found = frozenset(TopicPartition(f"t{source_task}", number) for number in range(partitions))
        record = SourceTaskRecord(source_task=source_task, epoch=1, version=version, partitions=found)
        for key, value in encode_source_task(record):
            self.store(key, value)

    async def put(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        ((key, value),) = records
        assert key == KEY
        self.puts.append(value)

    async def catch_up(self, *, timeout_ms: int = API_TIMEOUT_MS) -> None:
        self.store(KEY, self.puts[-1])


class Term:
    """A leader with two source tasks of one partition each, on the members m0 and m1."""

    def __init__(self, directory: Path, lines: str = LIMIT) -> None:
        settings = files.flow(directory, lines)
        self.topic = Topic(settings)
        self.reports: dict[int, SourceTaskReport] = {}
        self.owners = {0: "m0", 1: "m1"}
        self.writer = FetchShareWriter(
            settings, self.topic, reports=self.reports, owners=lambda: dict(self.owners), put=self.topic.put
        )
        for source_task in self.owners:
            self.topic.assign(source_task, 1)

    def report(self, source_task: int, member: str, use: FetchUse | None) -> None:
        self.reports[source_task] = SourceTaskReport(
            source_task=source_task, epoch=1, version=1, member=member, node="n", use=use
        )

    @property
    def shares(self) -> FetchShares | None:
        return self.topic.fetch_shares


async def test_the_limit_is_divided_by_partitions_at_first_and_by_use_every_ten_seconds(tmp_path: Path) -> None:
    term = Term(tmp_path)
    await term.writer.write_due(0.0)
    assert term.shares == FetchShares(1_000_000, {0: 500_000, 1: 500_000})
    term.report(0, "m0", FetchUse(500_000, True))
    term.report(1, "m1", FetchUse(0, False))
    await term.writer.write_due(DIVIDE_EVERY_S - 0.1)
    assert len(term.topic.puts) == 1
    await term.writer.write_due(DIVIDE_EVERY_S)
    assert term.shares == FetchShares(1_000_000, {0: 975_000, 1: 25_000})
    term.report(0, "m0", FetchUse(975_000, True))
    await term.writer.write_due(2 * DIVIDE_EVERY_S)
    assert len(term.topic.puts) == 2, "nothing has changed"


async def test_it_is_divided_at_once_when_partitions_or_owners_change(tmp_path: Path) -> None:
    term = Term(tmp_path)
    await term.writer.write_due(0.0)
    term.topic.assign(1, 3, version=2)
    await term.writer.write_due(1.0)
    assert term.shares == FetchShares(1_000_000, {0: 250_000, 1: 750_000})
    del term.owners[1]
    await term.writer.write_due(2.0)
    assert term.shares == FetchShares(1_000_000, {0: 962_500, 1: 37_500}), "nobody can use it"
    term.owners[1] = "m2"
    await term.writer.write_due(3.0)
    assert term.shares == FetchShares(1_000_000, {0: 250_000, 1: 750_000}), "no share is lost with a node"


async def test_the_report_of_a_former_owner_does_not_count(tmp_path: Path) -> None:
    term = Term(tmp_path)
    term.report(0, "m0", FetchUse(0, False))
    term.report(1, "of a dead node", FetchUse(0, False))
    await term.writer.write_due(0.0)
    assert term.shares == FetchShares(1_000_000, {0: 25_000, 1: 975_000})


async def test_a_removed_limit_removes_the_shares(tmp_path: Path) -> None:
    term = Term(tmp_path, "")
    await term.writer.write_due(0.0)
    assert term.topic.puts == [], "there was none"
    term.topic.store(KEY, b'{"limit":1000,"shares":{"0":1000}}')
    await term.writer.write_due(1.0)
    assert (term.topic.puts, term.shares) == ([None], None)


async def test_errors_are_shown_and_retried_and_a_replaced_leader_stops(tmp_path: Path) -> None:
    term = Term(tmp_path)
    term.topic.failures = [RequestTimedOut("slow")]
    running = asyncio.create_task(term.writer.run())
    await until(lambda: term.writer.error.text is not None, 5, "the error is shown")
    assert "divide mm2.max.bytes.per.second" in str(term.writer.error.text)
    await until(lambda: term.shares is not None, 5, "it is retried")
    term.topic.failures = [Fenced("another leader")]
    term.topic.assign(1, 3, version=2)
    with pytest.raises(Fenced):
        await running
