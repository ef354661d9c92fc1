"""Messages of consumer group members: order, later versions, invalid bytes. (Java's bytes: tests/golden.)"""

from __future__ import annotations

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from mm2.core.wire.formats import FormatError

PARTITIONS = {TopicPartition("b", 1), TopicPartition("b", 0), TopicPartition("a", 10)}


def test_equal_topics_give_equal_bytes() -> None:
    """The broker starts a rebalance if a member's bytes changed."""
    assert encode_subscription(["b", "a", "b"]) == encode_subscription({"a", "b"})
    assert decode_subscription(encode_subscription(["b", "a", "b"])) == ["a", "b"]


def test_assignments_are_read_as_written() -> None:
    assert decode_assignment(encode_assignment(PARTITIONS)) == PARTITIONS
    assert decode_assignment(encode_assignment([])) == set()


def test_empty_bytes_are_an_empty_assignment() -> None:
    assert decode_assignment(b"") == set()


def test_fields_of_later_versions_are_not_read() -> None:
    later = b"\x00\x09" + encode_subscription(["a"])[2:] + b"anything"
    assert decode_subscription(later) == ["a"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "version: data ends after 0 bytes"),
        (b"\xff\xff\x00\x00\x00\x00", "version -1 is not supported"),
        (b"\x00\x00\x00\x00\x00\x05", "5 topics, but 0 bytes are left"),
        (b"\x00\x00\xff\xff\xff\xff", "-1 topics"),
        (b"\x00\x00\x00\x00\x00\x01\x00\x05", "string of 5 bytes, but 0 bytes are left"),
    ],
)
def test_invalid_subscriptions(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode_subscription(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00", "version: data ends after 1 bytes"),
        (b"\x00\x00\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff", "2147483647 partitions of t, but 0 bytes are left"),
    ],
)
def test_invalid_assignments(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode_assignment(data)


def test_names_that_do_not_fit() -> None:
    with pytest.raises(FormatError, match="too long"):
        encode_subscription(["x" * 40_000])
    with pytest.raises(FormatError, match="does not fit"):
        encode_assignment([TopicPartition("t", 1 << 31)])
