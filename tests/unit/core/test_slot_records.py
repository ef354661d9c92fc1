"""Letters are the invariants of `Arrivals`."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from mm2.core.exact_offset_records import TopicIds
from mm2.core.formats import FormatError
from mm2.core.names import TopicPartition
from mm2.core.slot_records import SlotBook, SlotRecord, decode_slot, encode_slot, is_slot_key

SOME = frozenset({TopicPartition("orders", 2), TopicPartition("orders", 0), TopicPartition("änderungen", 1)})


def slot(*partitions: int, epoch: int = 1, version: int = 0, number: int = 0, topic: str = "t") -> SlotRecord:
    chosen = frozenset(TopicPartition(topic, partition) for partition in partitions)
    return SlotRecord(slot=number, epoch=epoch, version=version, partitions=chosen)


def take(book: SlotBook, record: SlotRecord, *, part_bytes: int = 1_000) -> list[bool]:
    return [book.take(decode_slot(*one)) for one in encode_slot(record, part_bytes=part_bytes)]


def test_what_is_written() -> None:
    ids = {"orders": TopicIds(UUID(int=1), None)}
    record = SlotRecord(slot=3, epoch=7, version=2, partitions=SOME, topic_ids=ids)
    assert encode_slot(record) == [
        (
            b"mm2-slots-3",
            '{"epoch":7,"version":2,"part":0,"parts":1,"partitions":{"orders":[0,2],"änderungen":[1]},'
            '"ids":{"orders":["00000000-0000-0000-0000-000000000001",null]}}'.encode(),
        )
    ]
    assert decode_slot(*encode_slot(record)[0]).content == (SOME, ids)


def test_the_order_of_keys_and_further_keys_do_not_matter() -> None:
    value = b'{"new":1,"partitions":{"t":[1]},"parts":1,"version":0,"part":0,"epoch":1}'
    part = decode_slot(b"mm2-slots-0", value)
    assert (part.number, part.age, part.content) == (0, (1, 0), (slot(1).partitions, {}))


def test_no_key_of_ours_is_one_java_knows() -> None:
    javas = ("target-state-", "connector-", "task-", "commit-", "restart-connector-", "tasks-fencing-", "session-key")
    for key, _ in encode_slot(slot(*range(200)), part_bytes=100):
        assert is_slot_key(key)
        assert not key.decode().startswith((*javas, "logger-cluster-"))
    assert not is_slot_key(b"session-key")
    assert not is_slot_key(None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"mm2-slots-x", b"{}"),
        (b"mm2-slots-0", None),
        (b"mm2-slots-0", b"[]"),
        (b"mm2-slots-0", b"\xff"),
        (b"mm2-slots-0", b'{"epoch":1,"version":0,"part":0,"parts":1,"partitions":[]}'),
        (b"mm2-slots-0", b'{"epoch":1,"version":0,"part":0,"parts":1,"partitions":{"t":[-1]}}'),
        (b"mm2-slots-0", b'{"epoch":true,"version":0,"part":0,"parts":1,"partitions":{}}'),
        (b"mm2-slots-0", b'{"epoch":1,"version":0,"part":1,"parts":2,"partitions":{}}'),
        (b"mm2-slots-0.1", b'{"epoch":1,"version":0,"part":1,"parts":1,"partitions":{}}'),
    ],
)
def test_what_cannot_be_read(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(FormatError, match="read slot"):
        decode_slot(key, value)


def test_long_lists_come_in_parts_of_about_the_size_asked_for() -> None:
    record = SlotRecord(
        slot=1,
        epoch=1,
        version=0,
        partitions=frozenset(TopicPartition(f"topic-{number:04}", part) for number in range(300) for part in (0, 1)),
    )
    encoded = encode_slot(record, part_bytes=2_000)
    assert [key for key, _ in encoded][:3] == [b"mm2-slots-1", b"mm2-slots-1.1", b"mm2-slots-1.2"]
    assert all(len(value) < 2_200 for _, value in encoded)
    assert {json.loads(value)["parts"] for _, value in encoded} == {len(encoded)}


def test_a_a_list_counts_once_all_its_parts_are_there() -> None:
    book = SlotBook()
    assert take(book, slot(1, 2)) == [True]
    long = slot(*range(100), version=1)
    changes = take(book, long, part_bytes=100)
    assert len(changes) > 1
    assert not any(changes[:-1])
    assert changes[-1]
    assert book.records == {0: long}


def test_a_parts_of_a_list_that_was_never_finished_are_dropped() -> None:
    book = SlotBook()
    parts = encode_slot(slot(*range(100)), part_bytes=100)
    book.take(decode_slot(*parts[0]))
    newer = slot(1, epoch=2)
    assert take(book, newer) == [True]
    assert not book.take(decode_slot(*parts[1]))
    assert book.records == {0: newer}
    book.take(decode_slot(*encode_slot(slot(*range(100), epoch=3), part_bytes=100)[0]))
    assert not book.take(decode_slot(*encode_slot(slot(2, epoch=2, version=1))[0]))


def test_b_what_an_earlier_leader_writes_changes_nothing() -> None:
    book = SlotBook()
    take(book, slot(1, epoch=5))
    assert take(book, slot(2, epoch=4, version=9)) == [False]
    assert take(book, slot(2, epoch=5)) == [False]
    assert take(book, slot(epoch=5, version=1)) == [True]
    assert book.records[0].partitions == frozenset()


def test_a_leader_writes_newer_records_also_after_the_group_began_to_count_anew() -> None:
    book = SlotBook()
    assert book.epoch_of_next_leader(3) == 3
    take(book, slot(1, epoch=57))
    assert book.epoch_of_next_leader(1) == 58
    assert book.epoch_of_next_leader(90) == 90
