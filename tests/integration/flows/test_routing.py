"""Records that are written one by one: to the partition of their key, or as a message handler says."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import pytest

from mm2.core.mirror1.user_class import MessageHandler, SourceRecord, TargetRecord, UserClass
from mm2.core.settings.client import ProduceSettings
from mm2.core.wire.murmur2 import partition_of
from tests.integration.flows.lane import COPIED
from tests.integration.flows.routed import routing
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import Record, read_topic
from tests.lab.records import Outgoing, plain, write
from tests.lab.waiting import until

RECORDS = 5_000


class Handler(MessageHandler):
    """Drops every third record, and copies every fifth to another topic, too."""

    def __init__(self, other: str) -> None:
        self._other = other

    def handle(self, record: SourceRecord) -> Sequence[TargetRecord]:
        number = int(record.key or b"0")
        if number % 3 == 0:
            return []
        if number == 7:
            raise RuntimeError("seven")
        value = (record.value or b"").upper()
        copies = [TargetRecord(topic=record.topic, key=record.key, value=value, headers=record.headers)]
        if number % 5 == 0:
            copies.append(TargetRecord(topic=self._other, key=record.key, value=value, partition=0))
        return copies


def by_key(topic: dict[int, list[Record]]) -> dict[bytes | None, list[bytes | None]]:
    found: defaultdict[bytes | None, list[bytes | None]] = defaultdict(list)
    for records in topic.values():
        for record in records:
            found[record.key].append(record.value)
    return dict(found)


@pytest.mark.parametrize("codec", [None, "lz4"])
async def test_records_go_to_the_partition_of_their_key(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, codec: str | None
) -> None:
    topic = unique_name("orders")
    cluster_a.create_topic(topic, 3)
    cluster_b.create_topic(topic, 5)
    keys = [b"%d" % (number % 97) if number % 10 else None for number in range(RECORDS)]
    records = [
        Outgoing(key=key, value=b"%d" % number, partition=partition_of(key or b"", 3), headers=(("n", None),))
        for number, key in enumerate(keys)
    ]
    write(cluster_a.bootstrap, topic, records, codec="zstd")
    async with routing(cluster_a, cluster_b, topic, 3, produce=ProduceSettings(compression_type=codec)) as task:
        await task.caught_up(topic)
        assert sum(one.counters.records for one in task.reported().partitions) == RECORDS
        assert set((await task.drained()).values()) == {one.position for one in task.reported().partitions}
    copied = await asyncio.to_thread(read_topic, cluster_b.bootstrap, topic)
    for number, rows in copied.items():
        assert {partition_of(row.key, 5) for row in rows if row.key is not None} <= {number}
        assert all(row.headers == (("n", None),) for row in rows)
    expected = by_key(read_topic(cluster_a.bootstrap, topic))
    found = by_key(copied)
    assert sorted(found.pop(None), key=bytes) == sorted(expected.pop(None), key=bytes)  # type: ignore[arg-type]
    assert found == expected
    assert len([rows for rows in copied.values() if any(row.key is None for row in rows)]) == 5


async def test_a_message_handler(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    topic, other, letters = (unique_name(name) for name in ("orders", "copies", "letters"))
    cluster_a.create_topic(topic, 2)
    for name, partitions in ((topic, 2), (other, 1), (letters, 1)):
        cluster_b.create_topic(name, partitions)
    write(cluster_a.bootstrap, topic, [Outgoing(key=b"%d" % n, value=b"v%d" % n, partition=n % 2) for n in range(100)])
    handler = UserClass(name=f"{__name__}:Handler", arguments=other)
    async with routing(cluster_a, cluster_b, topic, 2, handler=handler, dead_letters=letters) as task:
        await task.caught_up(topic)
        assert sum(one.counters.dead_letters for one in task.reported().partitions) == 1
    numbers = [n for n in range(100) if n % 3 and n != 7]
    copied, copies, rejected = (read_topic(cluster_b.bootstrap, name) for name in (topic, other, letters))
    assert sorted(row.value or b"" for rows in copied.values() for row in rows) == sorted(b"V%d" % n for n in numbers)
    assert [row.key for row in copies[0]] != []
    assert {row.key for row in copies[0]} == {b"%d" % n for n in numbers if n % 5 == 0}
    assert [row.key for row in rejected[0]] == [b"7"]


async def test_a_failing_handler_stops_its_partition(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    topic = unique_name("orders")
    for cluster in (cluster_a, cluster_b):
        cluster.create_topic(topic, 1)
    write(cluster_a.bootstrap, topic, plain(20, partitions=1))
    handler = UserClass(name=f"{__name__}:Handler", arguments=topic)
    async with routing(cluster_a, cluster_b, topic, 1, handler=handler) as task:
        await until(lambda: task.partition(topic).stopped_at is not None, COPIED, "the partition has stopped")
        stopped = task.partition(topic)
        assert stopped.stopped_at == stopped.position == 7
        assert "raised RuntimeError: seven" in (stopped.error or "")


async def test_a_record_that_the_target_rejects(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """It is found in its batch; what follows is written again, in order."""
    topic, letters = unique_name("orders"), unique_name("letters")
    cluster_a.create_topic(topic, 1)
    cluster_b.create_topic(topic, 2, config={"max.message.bytes": "2000"})
    cluster_b.create_topic(letters, 1)
    values = [b"x" * (5_000 if number == 40 else 100) for number in range(100)]
    write(
        cluster_a.bootstrap,
        topic,
        [Outgoing(key=b"%d" % number, value=value, partition=0) for number, value in enumerate(values)],
    )
    async with routing(cluster_a, cluster_b, topic, 1, dead_letters=letters) as task:
        await task.caught_up(topic)
        assert task.partition(topic).counters.dead_letters == 1
    assert [row.key for row in read_topic(cluster_b.bootstrap, letters)[0]] == [b"40"]
    for rows in read_topic(cluster_b.bootstrap, topic).values():
        last_copies = list(dict.fromkeys(int(row.key or b"") for row in reversed(rows)))[::-1]
        assert last_copies == sorted(last_copies)
        assert 40 not in last_copies
    copied = {row.key for rows in read_topic(cluster_b.bootstrap, topic).values() for row in rows}
    assert copied == {b"%d" % number for number in range(100) if number != 40}
