"""Letters refer to the invariants of `SourceTaskBook`."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from mm2.core.assignment.source_task_records import (
    SourceTaskBook,
    SourceTaskRecord,
    decode_source_task,
    encode_source_task,
    is_source_task_key,
)
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.wire.formats import FormatError

SOME = frozenset({TopicPartition("orders", 2), TopicPartition("orders", 0), TopicPartition("änderungen", 1)})


def source_task(
    *partitions: int, epoch: int = 1, version: int = 0, number: int = 0, topic: str = "t"
) -> SourceTaskRecord:
    chosen = frozenset(TopicPartition(topic, partition) for partition in partitions)
    return SourceTaskRecord(source_task=number, epoch=epoch, version=version, partitions=chosen)


def take(book: SourceTaskBook, record: SourceTaskRecord, *, part_bytes: int = 1_000) -> list[bool]:
    return [book.take(decode_source_task(*one)) for one in encode_source_task(record, part_bytes=part_bytes)]


def test_encoded_record() -> None:
    ids = {"orders": TopicIds(UUID(int=1), None)}
    record = SourceTaskRecord(source_task=3, epoch=7, version=2, partitions=SOME, topic_ids=ids)
    assert encode_source_task(record) == [
        (
            b"mm2-source-task-3",
            '{"epoch":7,"version":2,"part":0,"parts":1,"partitions":{"orders":[0,2],"änderungen":[1]},'
            '"ids":{"orders":["00000000-0000-0000-0000-000000000001",null]}}'.encode(),
        )
    ]
    assert decode_source_task(*encode_source_task(record)[0]).content == (SOME, ids, None)


def test_the_query_of_a_source_task_is_in_every_part() -> None:
    record = replace(source_task(*range(100), number=4), query="mask")
    parts = encode_source_task(record, part_bytes=100)
    assert len(parts) > 1
    assert all(json.loads(value)["query"] == "mask" for _, value in parts)
    book = SourceTaskBook()
    take(book, record, part_bytes=100)
    assert book.records == {4: record}


def test_a_release_without_queries_cannot_read_the_list_of_a_query() -> None:
    """It would copy the records as they are. It reads ``partitions`` and ignores what it does not know."""
    ((_, value),) = encode_source_task(replace(source_task(1), query="mask"))
    assert json.loads(value) == {
        "epoch": 1,
        "version": 0,
        "part": 0,
        "parts": 1,
        "query": "mask",
        "transformed": {"t": [1]},
        "ids": {},
    }
    ((_, value),) = encode_source_task(source_task(1))
    assert json.loads(value)["partitions"] == {"t": [1]}


def test_key_order_and_unknown_keys_are_ignored() -> None:
    value = b'{"new":1,"partitions":{"t":[1]},"parts":1,"version":0,"part":0,"epoch":1}'
    part = decode_source_task(b"mm2-source-task-0", value)
    assert (part.number, part.age, part.content) == (0, (1, 0), (source_task(1).partitions, {}, None))


def test_keys_differ_from_those_of_java() -> None:
    javas = ("target-state-", "connector-", "task-", "commit-", "restart-connector-", "tasks-fencing-", "session-key")
    for key, _ in encode_source_task(source_task(*range(200)), part_bytes=100):
        assert is_source_task_key(key)
        assert not key.decode().startswith((*javas, "logger-cluster-"))
    assert not is_source_task_key(b"session-key")
    assert not is_source_task_key(None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"mm2-source-task-x", b"{}"),
        (b"mm2-source-task-0", None),
        (b"mm2-source-task-0", b"[]"),
        (b"mm2-source-task-0", b"\xff"),
        (b"mm2-source-task-0", b'{"epoch":1,"version":0,"part":0,"parts":1,"partitions":[]}'),
        (b"mm2-source-task-0", b'{"epoch":1,"version":0,"part":0,"parts":1,"partitions":{"t":[-1]}}'),
        (b"mm2-source-task-0", b'{"epoch":true,"version":0,"part":0,"parts":1,"partitions":{}}'),
        (b"mm2-source-task-0", b'{"epoch":1,"version":0,"part":1,"parts":2,"partitions":{}}'),
        (b"mm2-source-task-0", b'{"epoch":1,"version":0,"part":0,"parts":1,"transformed":{},"query":1}'),
        (b"mm2-source-task-0", b'{"epoch":1,"version":0,"part":0,"parts":1,"partitions":{},"query":"mask"}'),
        (b"mm2-source-task-0", b'{"epoch":1,"version":0,"part":0,"parts":1,"transformed":{}}'),
        (b"mm2-source-task-0.1", b'{"epoch":1,"version":0,"part":1,"parts":1,"partitions":{}}'),
    ],
)
def test_invalid_records(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(FormatError, match="read source task"):
        decode_source_task(key, value)


def test_long_lists_are_split_into_parts_of_the_given_size() -> None:
    record = SourceTaskRecord(
        source_task=1,
        epoch=1,
        version=0,
        partitions=frozenset(TopicPartition(f"topic-{number:04}", part) for number in range(300) for part in (0, 1)),
    )
    encoded = encode_source_task(record, part_bytes=2_000)
    assert [key for key, _ in encoded][:3] == [b"mm2-source-task-1", b"mm2-source-task-1.1", b"mm2-source-task-1.2"]
    assert all(len(value) < 2_200 for _, value in encoded)
    assert {json.loads(value)["parts"] for _, value in encoded} == {len(encoded)}


def test_a_list_is_applied_when_all_its_parts_are_present() -> None:
    book = SourceTaskBook()
    assert take(book, source_task(1, 2)) == [True]
    long = source_task(*range(100), version=1)
    changes = take(book, long, part_bytes=100)
    assert len(changes) > 1
    assert not any(changes[:-1])
    assert changes[-1]
    assert book.records == {0: long}


def test_a_parts_of_an_incomplete_list_are_dropped() -> None:
    book = SourceTaskBook()
    parts = encode_source_task(source_task(*range(100)), part_bytes=100)
    book.take(decode_source_task(*parts[0]))
    newer = source_task(1, epoch=2)
    assert take(book, newer) == [True]
    assert not book.take(decode_source_task(*parts[1]))
    assert book.records == {0: newer}
    book.take(decode_source_task(*encode_source_task(source_task(*range(100), epoch=3), part_bytes=100)[0]))
    assert not book.take(decode_source_task(*encode_source_task(source_task(2, epoch=2, version=1))[0]))


def test_b_records_of_an_earlier_leader_are_ignored() -> None:
    book = SourceTaskBook()
    take(book, source_task(1, epoch=5))
    assert take(book, source_task(2, epoch=4, version=9)) == [False]
    assert take(book, source_task(2, epoch=5)) == [False]
    assert take(book, source_task(epoch=5, version=1)) == [True]
    assert book.records[0].partitions == frozenset()


def test_records_stay_newer_after_the_group_generation_was_reset() -> None:
    book = SourceTaskBook()
    assert book.epoch_of_next_leader(3) == 3
    take(book, source_task(1, epoch=57))
    assert book.epoch_of_next_leader(1) == 58
    assert book.epoch_of_next_leader(90) == 90
