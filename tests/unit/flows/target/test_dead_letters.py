"""`flows.target.dead_letter_writer`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flows.batch.record_reader import DecodedRecord
from flows.partition.rejection import Rejection, Stage
from flows.target.dead_letter_writer import DeadLetter, dead_letters
from mm2.core.naming.names import TopicPartition

ORDERS = TopicPartition("orders", 3)
RECORD = DecodedRecord(timestamp_ms=5, key=b"k", value=b"value", headers=((b"h", b"1"), (b"\xff", None)))
OWN = (("h", b"1"), ("\ufffd", None))


def rejection(record: DecodedRecord | None, batch: bytes | None = None) -> Rejection:
    return Rejection(first=7, until=9, message="größer", exception="x.Y", stage=Stage.POLL, record=record, batch=batch)


def letters(of: Rejection, *, context_headers: bool = True, source_values: bool = True) -> list[DeadLetter]:
    return list(dead_letters(ORDERS, 2, of, context_headers=context_headers, source_values=source_values))


def context(last: tuple[str, bytes]) -> tuple[tuple[str, bytes | None], ...]:
    return (
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"7"),
        ("__connect.errors.connector.name", b"MirrorSourceConnector"),
        ("__connect.errors.task.id", b"2"),
        ("__connect.errors.stage", b"TASK_POLL"),
        ("__connect.errors.class.name", b"org.apache.kafka.connect.mirror.MirrorSourceTask"),
        ("__connect.errors.exception.class.name", b"x.Y"),
        ("__connect.errors.exception.message", "größer".encode()),
        last,
    )


def test_a_record_then_without_value_then_without_key() -> None:
    said = context(("mm2.errors.timestamp", b"5"))
    no_value = ("mm2.errors.value.bytes", b"5")
    assert letters(rejection(RECORD)) == [
        DeadLetter(key=b"k", value=b"value", headers=OWN + said),
        DeadLetter(key=b"k", value=None, headers=(*OWN, *said, no_value)),
        DeadLetter(key=None, value=None, headers=(*said, no_value, ("mm2.errors.key.bytes", b"1"))),
    ]


def test_a_batch_that_cannot_be_read() -> None:
    said = context(("mm2.errors.last.offset", b"8"))
    assert letters(rejection(None, b"batch")) == [
        DeadLetter(key=None, value=b"batch", headers=said),
        DeadLetter(key=None, value=None, headers=(*said, ("mm2.errors.value.bytes", b"5"))),
    ]


@pytest.mark.parametrize("context_headers", [True, False])
def test_what_a_query_hides_is_left_out(*, context_headers: bool) -> None:
    said = context(("mm2.errors.timestamp", b"5"))
    left_out = (("mm2.errors.value.bytes", b"5"), ("mm2.errors.key.bytes", b"1"))
    assert letters(rejection(RECORD), context_headers=context_headers, source_values=False) == [
        DeadLetter(key=None, value=None, headers=(*said, *left_out))
    ]
    (letter,) = letters(rejection(None, b"batch"), context_headers=context_headers, source_values=False)
    assert (letter.key, letter.value, dict(letter.headers)["mm2.errors.last.offset"]) == (None, None, b"8")


def test_what_the_target_rejects_has_passed_the_query() -> None:
    of = replace(rejection(RECORD), stage=Stage.PRODUCE)
    assert letters(of, source_values=False) == letters(of)


def test_without_context_headers() -> None:
    first, second, third = letters(rejection(RECORD), context_headers=False)
    assert first.headers == OWN
    assert second.headers == (*OWN, ("mm2.errors.value.bytes", b"5"))
    assert third.headers == (("mm2.errors.value.bytes", b"5"), ("mm2.errors.key.bytes", b"1"))


def test_a_tombstone_without_key_cannot_be_made_smaller() -> None:
    bare = DecodedRecord(timestamp_ms=5, key=None, value=None, headers=())
    assert [(one.key, one.value) for one in letters(rejection(bare))] == [(None, None)]
