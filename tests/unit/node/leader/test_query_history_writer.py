"""The histories of queries that a leader writes, and what its successor adds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from mm2.config.settings import FlowSettings
from mm2.core.coordination.query_history import QueryEntry, QueryText, QueryUse
from mm2.core.coordination.query_history_records import Record
from mm2.core.coordination.query_uses import ReportedQueryUses, encode_query_uses
from mm2.core.naming.names import Flow, TopicPartition
from mm2.kafka.errors import RequestTimedOut
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.node.leader.query_history_writer import WRITTEN_AT_ONCE, QueryHistoryWriter
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import unconnected_cluster
from tests.lab.waiting import until
from tests.unit.config import files

AA = "aa" * 32
MASK = QueryText(text="SELECT sha2(key, 256) AS key FROM records", sha256=AA)


class Topic(ConfigStore):
    """A config topic in memory: what is put is read by `catch_up`."""

    def __init__(self, settings: FlowSettings) -> None:
        super().__init__(settings, unconnected_cluster(), on_change=lambda: None, on_command=lambda _: None)
        self.puts: list[Sequence[Record]] = []
        self.failures: list[Exception] = []
        self._unread: list[Record] = []

    async def put(self, records: Sequence[Record]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.puts.append(records)
        self._unread += records

    async def catch_up(self, *, timeout_ms: int = API_TIMEOUT_MS) -> None:
        for key, value in self._unread:
            self._take(StoredRecord(partition=0, offset=0, key=key, value=value, timestamp=0))
        self._unread.clear()


def use(number: int, offset: int, query: str | None, at: int) -> QueryUse:
    return QueryUse(TopicPartition("orders", number), QueryEntry(offset, query, at))


def written(topic: Topic, number: int) -> list[tuple[int, str | None]]:
    return [(one.offset, one.sha256) for one in topic.query_histories.of(TopicPartition("orders", number)).entries]


def a_writer(directory: Path) -> tuple[Topic, ReportedQueryUses, QueryHistoryWriter]:
    topic, reported = Topic(files.flow(directory)), ReportedQueryUses()
    return topic, reported, QueryHistoryWriter(Flow("A", "B"), topic, reported, topic.put)


async def test_nothing_is_written_without_queries(tmp_path: Path) -> None:
    topic, _, writer = a_writer(tmp_path)
    await writer.write_due()
    assert topic.puts == []


async def test_reports_are_added_to_the_histories(tmp_path: Path) -> None:
    topic, reported, writer = a_writer(tmp_path)
    reported.take(*encode_query_uses(3, MASK, [use(0, 100, AA, 1), use(1, 0, AA, 1)]))
    await writer.write_due()
    reported.take(*encode_query_uses(3, None, [use(0, 250, None, 2)]))
    await writer.write_due()
    assert written(topic, 0) == [(100, AA), (250, None)]
    assert written(topic, 1) == [(0, AA)]
    assert topic.query_histories.texts == {AA: MASK}
    assert [[key for key, _ in records] for records in topic.puts] == [
        [b"mm2-query-" + AA.encode(), b"mm2-query-history-orders-0", b"mm2-query-history-orders-1"],
        [b"mm2-query-history-orders-0"],
    ]
    assert reported.uses == ()


async def test_a_leader_that_is_replaced_loses_nothing(tmp_path: Path) -> None:
    """(A) (B) Its successor has read the same reports, and adds them to what was written."""
    topic, reported, former = a_writer(tmp_path)
    reported.take(*encode_query_uses(3, MASK, [use(0, 100, AA, 1)]))
    await former.write_due()
    reports = ReportedQueryUses()  # of the node that becomes the leader; the owner of source task 3 changes, too
    reports.take(*encode_query_uses(3, MASK, [use(0, 100, AA, 1)]))
    reports.take(*encode_query_uses(3, None, [use(0, 250, None, 2)]))
    reports.take(*encode_query_uses(3, MASK, [use(0, 300, AA, 3)]))
    topic.failures.append(Fenced("replaced"))
    with pytest.raises(Fenced):
        await QueryHistoryWriter(Flow("A", "B"), topic, reports, topic.put).run()
    successor = QueryHistoryWriter(Flow("A", "B"), topic, reports, topic.put)
    await successor.write_due()
    assert written(topic, 0) == [(100, AA), (250, None), (300, AA)]
    reports.take(*encode_query_uses(3, MASK, [use(0, 100, AA, 1)]))  # repeated by a former owner
    await successor.write_due()
    assert written(topic, 0) == [(100, AA), (250, None), (300, AA)]
    assert len(topic.puts) == 2


async def test_many_histories_are_written_in_parts(tmp_path: Path) -> None:
    topic, reported, writer = a_writer(tmp_path)
    count = 3 * WRITTEN_AT_ONCE // len(AA) // 2
    reported.take(*encode_query_uses(3, MASK, [use(number, 0, AA, 1) for number in range(count)]))
    await writer.write_due()
    sizes = [sum(len(key) + len(value) for key, value in records) for records in topic.puts]
    assert [size // WRITTEN_AT_ONCE for size in sizes] == [1] * (len(sizes) - 1) + [0]
    assert len(sizes) > 2
    assert len(topic.query_histories.histories) == count


async def test_an_error_is_shown_and_retried(tmp_path: Path) -> None:
    """(C)"""
    topic, reported, writer = a_writer(tmp_path)
    topic.failures.append(RequestTimedOut("no answer"))
    running = asyncio.create_task(writer.run())
    try:
        await asyncio.sleep(0)
        reported.take(*encode_query_uses(3, MASK, [use(0, 100, AA, 1)]))
        writer.take_reported()
        await until(lambda: writer.error.text, 10, "the error is shown")
        assert writer.error.text == "cannot record which queries apply: no answer"
        await until(lambda: written(topic, 0), 10, "the history is written")
        await until(lambda: writer.error.text is None, 10, "the error is gone")
    finally:
        running.cancel()
        await asyncio.wait([running])
