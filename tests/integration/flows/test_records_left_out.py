"""Records that the target rejects: their partition stops at them, or continues without them and reports it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mm2.core.lanes.losses import LossKind
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.internal_topics import DEAD_LETTER_CONFIGS
from mm2.core.settings.client import ProduceSettings
from tests.integration.flows.lane import COPIED, RunningSourceTask, copying
from tests.lab.cluster import KafkaCluster
from tests.lab.history import Record, read_topic
from tests.lab.records import Outgoing, plain, write
from tests.lab.segments import damage_batch
from tests.lab.waiting import until

Unique = Callable[[str], str]
DAY_MS = 24 * 3600 * 1000
BAD = (20, 41)
COUNT = 52


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why the target rejects a record, and how its broker says so."""

    record: Outgoing
    remote_config: dict[str, str]
    words: str
    exception: str


def causes() -> dict[str, Cause]:
    headers = (("trace", b"1"), ("trace", None))
    far = int(time.time() * 1000) + 10 * DAY_MS
    return {
        "too large": Cause(
            record=Outgoing(key=b"big", value=random.Random(1).randbytes(30_000), headers=headers),
            remote_config={"max.message.bytes": "20000"},
            words="MESSAGE_TOO_LARGE",
            exception="org.apache.kafka.common.errors.RecordTooLargeException",
        ),
        "timestamp": Cause(
            record=Outgoing(key=b"late", value=b"from the future", headers=headers, timestamp_ms=far),
            remote_config={},
            words="INVALID_TIMESTAMP",
            exception="org.apache.kafka.common.errors.InvalidTimestampException",
        ),
        "null key": Cause(
            record=Outgoing(key=None, value=b"no key", headers=headers),
            remote_config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"},
            words="INVALID_RECORD",
            exception="org.apache.kafka.common.InvalidRecordException",
        ),
    }


CAUSES = causes()
BATCHES = pytest.mark.parametrize(
    ("codec", "recoded"),
    [  # compressed or not, passed through or rebuilt, each once
        ("none", None),
        ("lz4", "gzip"),
        pytest.param("lz4", None, marks=pytest.mark.long),
        pytest.param("none", "gzip", marks=pytest.mark.long),
    ],
    ids=str,
)


def filled(cluster: KafkaCluster, topic: str, cause: Cause, codec: str) -> list[Record]:
    """Create a topic with one batch that has bad records among good ones, and return its records."""
    cluster.create_topic(topic, config={"message.timestamp.after.max.ms": str(20 * DAY_MS)})
    good = list(plain(COUNT - len(BAD)))
    for offset in BAD:
        good.insert(offset, cause.record)
    write(cluster.bootstrap, topic, good, codec=codec, settings={"linger.ms": 500})
    return records(cluster, topic)


def records(cluster: KafkaCluster, topic: str) -> list[Record]:
    return read_topic(cluster.bootstrap, topic)[0]


def contents(found: list[Record]) -> list[object]:
    return [record.content for record in found]


async def stopped(source_task: RunningSourceTask, topic: str, offset: int) -> str:
    """Wait until the partition is stopped at ``offset``, and return its error."""

    def is_stopped() -> bool:
        one = source_task.partition(topic)
        return (one.state, one.stopped_at) == (TaskState.FAILED, offset)

    await until(is_stopped, COPIED, f"{topic} is stopped at {offset}")
    assert source_task.partition(topic).position == offset
    return source_task.partition(topic).error or ""


def losses(source_task: RunningSourceTask) -> list[tuple[int, int, str]]:
    return [(one.first, one.until, one.kind) for one in source_task.runner.progress().losses]


@BATCHES
@pytest.mark.parametrize("name", CAUSES)
async def test_dead_letters(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, name: str, codec: str, recoded: str | None
) -> None:
    cause, topic, letters = CAUSES[name], unique("left-out"), unique("mm2-dead-letters")
    source = filled(cluster_a, topic, cause, codec)
    cluster_b.create_topic(letters, config=DEAD_LETTER_CONFIGS)
    produce = ProduceSettings(compression_type=recoded)
    async with copying(
        cluster_a, cluster_b, {topic: 1}, remote_config=cause.remote_config, produce=produce, dead_letters=letters
    ) as source_task:
        await source_task.caught_up(topic)
        one = source_task.partition(topic)
        assert (one.state, one.error, one.counters.dead_letters) == (TaskState.RUNNING, None, len(BAD))
        assert losses(source_task) == [(offset, offset + 1, LossKind.DEAD_LETTER) for offset in BAD]
        assert set((await source_task.drained()).values()) == {COUNT}
    good = [record for record in source if record.offset not in BAD]
    assert contents(records(cluster_b, f"A.{topic}")) == contents(good)
    for letter, offset in zip(records(cluster_b, letters), BAD, strict=True):
        assert (letter.key, letter.value) == (cause.record.key, cause.record.value)
        assert letter.headers[:2] == cause.record.headers
        said = dict(letter.headers[2:])
        message = (said.pop("__connect.errors.exception.message") or b"").decode()
        assert message.startswith(f"cannot copy {topic}-0 offset {offset} to A.{topic}-0: ")
        assert cause.words in message
        assert said == {
            "__connect.errors.topic": topic.encode(),
            "__connect.errors.partition": b"0",
            "__connect.errors.offset": str(offset).encode(),
            "__connect.errors.connector.name": b"MirrorSourceConnector",
            "__connect.errors.task.id": b"0",
            "__connect.errors.stage": b"KAFKA_PRODUCE",
            "__connect.errors.class.name": b"org.apache.kafka.connect.mirror.MirrorSourceTask",
            "__connect.errors.exception.class.name": cause.exception.encode(),
            "mm2.errors.timestamp": str(source[offset].timestamp_ms).encode(),
        }
        assert abs(letter.timestamp_ms - time.time() * 1000) < DAY_MS


@BATCHES
@pytest.mark.parametrize("name", CAUSES)
async def test_a_partition_stops_at_the_record_and_continues_at_once_after_a_skip(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, name: str, codec: str, recoded: str | None
) -> None:
    cause, topic = CAUSES[name], unique("stopped")
    source = filled(cluster_a, topic, cause, codec)
    produce = ProduceSettings(compression_type=recoded)
    async with copying(
        cluster_a, cluster_b, {topic: 1}, remote_config=cause.remote_config, produce=produce
    ) as source_task:
        error = await stopped(source_task, topic, BAD[0])
        assert error.startswith(f"cannot copy {topic}-0 offset {BAD[0]} to A.{topic}-0: ")
        assert cause.words in error
        assert contents(records(cluster_b, f"A.{topic}")) == contents(source[: BAD[0]])
        source_task.skip(BAD[0] + 1)
        assert source_task.partition(topic).stopped_at == BAD[0], "the partition is not stopped there"
        source_task.skip(BAD[0])
        await stopped(source_task, topic, BAD[1])
        async with copying(  # the lane is replaced before the offset behind the skipped record is stored
            cluster_a,
            cluster_b,
            {topic: 1},
            remote_config=cause.remote_config,
            produce=produce,
            predecessor=source_task,
        ) as successor:
            successor.skip(BAD[0])
            await stopped(successor, topic, BAD[1])
            successor.skip(BAD[1])
            await successor.caught_up(topic)
            assert losses(successor) == [(offset, offset + 1, LossKind.SKIPPED) for offset in BAD]
            assert set((await successor.drained()).values()) == {COUNT}


async def test_what_the_dead_letter_topic_rejects_is_left_out_of_the_letter(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic, letters = unique("left-out"), unique("mm2-dead-letters")
    value, key = random.Random(1).randbytes(30_000), random.Random(2).randbytes(5_000)
    cluster_a.create_topic(topic)
    write(cluster_a.bootstrap, topic, [*plain(5), Outgoing(key=b"k", value=value), Outgoing(key=key, value=value)])
    cluster_b.create_topic(letters, config={"max.message.bytes": "2000"})
    async with copying(
        cluster_a, cluster_b, {topic: 1}, remote_config={"max.message.bytes": "10000"}, dead_letters=letters
    ) as source_task:
        await source_task.caught_up(topic)
    first, second = records(cluster_b, letters)
    assert (first.key, first.value, dict(first.headers)["mm2.errors.value.bytes"]) == (b"k", None, b"30000")
    said = dict(second.headers)
    assert (second.key, second.value, said["mm2.errors.value.bytes"], said["mm2.errors.key.bytes"]) == (
        None,
        None,
        b"30000",
        b"5000",
    )


async def test_a_partition_stops_if_its_dead_letter_cannot_be_written(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    topic, letters = unique("left-out"), unique("mm2-dead-letters")
    source = filled(cluster_a, topic, CAUSES["null key"], "none")
    cluster_b.create_topic(letters, config={"cleanup.policy": "compact"})
    config = CAUSES["null key"].remote_config
    async with copying(cluster_a, cluster_b, {topic: 1}, remote_config=config, dead_letters=letters) as source_task:
        error = await stopped(source_task, topic, BAD[0])
        assert f"; its dead letter cannot be written to {letters}: " in error
        assert contents(records(cluster_b, f"A.{topic}")) == contents(source[: BAD[0]])
        source_task.skip(BAD[0])
        await stopped(source_task, topic, BAD[1])


async def test_a_lane_that_is_killed_loses_no_dead_letter(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique
) -> None:
    """Many bad records, and lanes that end at any time: letters and records can be repeated, but none is missing."""
    topic, letters = unique("left-out"), unique("mm2-dead-letters")
    cluster_a.create_topic(topic)
    bad = {offset for offset in range(600) if offset % 3 == 0}
    outgoing = [Outgoing(key=None if offset in bad else b"%d" % offset, value=b"%d" % offset) for offset in range(600)]
    write(cluster_a.bootstrap, topic, outgoing)
    cluster_b.create_topic(letters, config=DEAD_LETTER_CONFIGS)
    config = CAUSES["null key"].remote_config

    async def run(predecessor: RunningSourceTask | None, seconds: float | None) -> RunningSourceTask:
        async with copying(
            cluster_a,
            cluster_b,
            {topic: 1},
            remote_config=config,
            dead_letters=letters,
            predecessor=predecessor,
            flush_interval_ms=50,
        ) as source_task:
            if seconds is None:
                await source_task.caught_up(topic)
            else:
                await asyncio.sleep(seconds)
            return source_task

    last = await run(None, 0.4)
    for seconds in (0.3, 0.5, None):
        last = await run(last, seconds)
    assert {record.value for record in records(cluster_b, letters)} == {b"%d" % offset for offset in bad}
    copied = dict.fromkeys(record.value for record in records(cluster_b, f"A.{topic}"))
    assert list(copied) == [b"%d" % offset for offset in range(600) if offset not in bad]


@pytest.mark.parametrize(
    ("recoded", "damaged"),
    [  # each once
        (None, "record"),
        ("gzip", "last offset delta"),
        pytest.param(None, "last offset delta", marks=pytest.mark.long),
        pytest.param("gzip", "record", marks=pytest.mark.long),
    ],
)
async def test_a_corrupt_batch_of_the_source(
    breakable: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, recoded: str | None, damaged: str
) -> None:
    source_cluster = breakable
    topic, skipped, letters = unique("corrupt"), unique("corrupt-skipped"), unique("mm2-dead-letters")
    for one in (topic, skipped):
        source_cluster.create_topic(one)
        write(source_cluster.bootstrap, one, plain(30), records_per_batch=10)
    source = records(source_cluster, topic)
    broker = source_cluster.broker(1)
    broker.stop()
    for one in (topic, skipped):
        assert damage_batch(broker, one, 10, at=70 if damaged == "record" else 26) in (range(10, 20), range(10, 21))
    broker.restart()
    cluster_b.create_topic(letters, config=DEAD_LETTER_CONFIGS)
    produce = ProduceSettings(compression_type=recoded)
    good = [*source[:10], *source[20:]]
    async with copying(source_cluster, cluster_b, {topic: 1}, produce=produce, dead_letters=letters) as source_task:
        await source_task.caught_up(topic)
        assert losses(source_task) == [(10, 20, LossKind.DEAD_LETTER)]
        assert source_task.partition(topic).counters.dead_letters == 1
        assert set((await source_task.drained()).values()) == {30}
    assert contents(records(cluster_b, f"A.{topic}")) == contents(good)
    (letter,) = records(cluster_b, letters)
    said = dict(letter.headers)
    assert letter.key is None
    assert letter.value is not None
    assert int.from_bytes(letter.value[:8], "big") == 10
    assert (said["__connect.errors.offset"], said["mm2.errors.last.offset"]) == (b"10", b"19")
    assert said["__connect.errors.stage"] == b"TASK_POLL"
    assert b"CRC mismatch" in (said["__connect.errors.exception.message"] or b"")
    async with copying(source_cluster, cluster_b, {skipped: 1}, produce=produce) as source_task:
        error = await stopped(source_task, skipped, 10)
        assert f"cannot fetch {skipped}-0: batch at offset 10: CRC mismatch" in error
        assert "(offsets 10-19)" in error
        assert source_task.partition(skipped).stopped_until == 20
        source_task.skip(10)
        await source_task.caught_up(skipped)
        assert losses(source_task) == [(10, 20, LossKind.SKIPPED)]
    assert len(records(cluster_b, f"A.{skipped}")) == 20
