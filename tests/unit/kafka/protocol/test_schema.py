"""Tables of fields: encoding and decoding of values, in plain and flexible versions."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID as Uuid

import pytest

from mm2.kafka.protocol.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID,
    Since,
    Table,
    Tagged,
    decoder,
    encoder,
    varint,
)

TABLE: Table = {
    "small": INT8,
    "later": Since(2, INT16),
    "name": STRING,
    "numbers": [INT32],
    "gone": Since(0, INT64, until=1),
    "rows": [{"id": UUID, "flag": BOOL, "raw": BYTES, "names": Since(2, [STRING])}],
}
VALUES = (
    -5,
    7,
    "größe",
    [1, -2],
    2**40,
    [(Uuid(int=9), True, b"\0x", ["a", None]), (None, False, None, None)],
)


def encoded(table: Table, values: Any, version: int, *, flexible: bool = False) -> bytes:
    out = bytearray()
    encoder(table, version, flexible=flexible)(out, values)
    return bytes(out)


def decoded(table: Table, data: bytes, version: int, *, flexible: bool = False) -> Any:
    values, end = decoder(table, version, flexible=flexible)(data, 0)
    assert end == len(data)
    return values


@pytest.mark.parametrize("flexible", [False, True])
def test_encode_and_decode(flexible: bool) -> None:
    later = decoded(TABLE, encoded(TABLE, VALUES, 2, flexible=flexible), 2, flexible=flexible)
    assert later == (*VALUES[:4], None, VALUES[5])
    earlier = decoded(TABLE, encoded(TABLE, VALUES, 1, flexible=flexible), 1, flexible=flexible)
    rows = [(Uuid(int=9), True, b"\0x", None), (None, False, None, None)]
    assert earlier == (-5, None, "größe", [1, -2], 2**40, rows)


def test_bytes_of_a_plain_and_a_flexible_version() -> None:
    table: Table = {"a": INT16, "b": STRING, "c": [{"d": INT32}], "e": [INT8]}
    values = (1, "xy", [(3,)], None)
    assert encoded(table, values, 0) == bytes.fromhex("0001 0002 7879 00000001 00000003 ffffffff")
    assert encoded(table, values, 0, flexible=True) == bytes.fromhex("0001 03 7879 02 00000003 00 00 00")


def test_fields_that_are_skipped() -> None:
    table: Table = {"a": INT16, "b": INT32, "c": STRING, "d": Since(5, STRING), "e": [{"f": STRING}], "g": INT8}
    skipping: Table = {"_a": INT16, "b": INT32, "_c": STRING, "_d": Since(5, STRING), "_e": [{"f": STRING}], "g": INT8}
    data = encoded(table, (1, 2, "c", "d", [("f",)], 6), 0, flexible=True)
    assert decoded(skipping, data, 0, flexible=True) == (2, 6)


def test_tagged_fields() -> None:
    end: Table = {"epoch": INT32, "end": INT64}
    table: Table = {"a": INT16, "far": Tagged(300, STRING), "end": Tagged(1, end)}
    plain: Table = {"a": INT16}
    assert encoded(table, (7, "x", (1, 2)), 0, flexible=True) == bytes.fromhex("0007 00"), "they are not written"
    assert decoded(table, encoded(plain, (7,), 0), 0) == (7, None, None)
    assert decoded(table, bytes.fromhex("0007 00"), 0, flexible=True) == (7, None, None)
    tags = "03 00 01 ff" + "01 0d 00000005 0000000000000009 00" + "ac02 03 027878"  # the first one is unknown
    assert decoded(table, bytes.fromhex("0007" + tags), 0, flexible=True) == (7, "x", (5, 9))


@pytest.mark.parametrize("length", [0, 126, 127, 128, 16_383, 16_384, 3_000_000])
def test_lengths_of_compact_strings(length: int) -> None:
    table: Table = {"text": STRING}
    assert decoded(table, encoded(table, ("x" * length,), 0, flexible=True), 0, flexible=True) == ("x" * length,)


def test_tags_of_later_brokers_are_skipped() -> None:
    tagged = b"\x02" + b"\x05\x03abc" + b"\x80\x01\x81\x01" + bytes(129)  # the second tag has number 128
    table: Table = {"rows": [{"a": INT8}]}
    data = b"\x03" + b"\x01" + tagged + b"\x02" + b"\0" + tagged
    assert decoded(table, data, 0, flexible=True) == ([(1,), (2,)],)


def test_invalid_utf_8_is_read_as_java_does() -> None:
    assert decoded({"text": STRING}, b"\0\3a\xffb", 0) == ("a\ufffdb",)


def test_a_number_that_is_too_long_is_an_error_at_once() -> None:
    """Java reads five bytes at most; the time for more would grow with their square."""
    assert varint(b"\xff\xff\xff\xff\x0f", 0) == (2**32 - 1, 5)
    begun = time.thread_time()
    with pytest.raises(ValueError, match="more than 5 bytes"):
        varint(b"\xff" * 1_000_000, 0)
    assert time.thread_time() - begun < 1
