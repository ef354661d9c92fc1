"""Our Fetch v13 bytes, spelled out here by the schema of Kafka's FetchRequest.json; aiokafka's structs end at v11."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.protocol.fetch_request import FetchedPartition, FetchFrom, FetchRequest

ORDERS, PAYMENTS, OLD = UUID(int=7), UUID(int=2**127 + 8), UUID(int=9)
NAMES = {ORDERS: "orders", PAYMENTS: "payments"}


def request(**changes: Any) -> FetchRequest:
    fields: dict[str, Any] = {
        "partitions": {
            TopicPartition("orders", 3): FetchFrom(70, 1_000, 5, ORDERS, 4),
            TopicPartition("payments", 0): FetchFrom(0, 2_000, -1, PAYMENTS),
            TopicPartition("orders", 1): FetchFrom(80, 1_000, -1, ORDERS),
        },
        "forgotten": {TopicPartition("orders", 1): OLD, TopicPartition("orders", 3): ORDERS},
        "names": NAMES,
        "session_id": 77,
        "session_epoch": 3,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 50_000,
        "isolation": IsolationLevel.READ_COMMITTED,
        "rack": "rack",
    }
    return FetchRequest(**(fields | changes))


def partition(number: int, epoch: int, offset: int, max_bytes: int, last_epoch: int = -1) -> bytes:
    return struct.pack(">iiqiqi", number, epoch, offset, last_epoch, -1, max_bytes) + b"\0"


def test_request() -> None:
    wanted = (
        b"\x03"
        + ORDERS.bytes
        + b"\x03"
        + partition(3, 5, 70, 1_000, 4)
        + partition(1, -1, 80, 1_000)
        + b"\0"
        + PAYMENTS.bytes
        + b"\x02"
        + partition(0, -1, 0, 2_000)
        + b"\0"
    )
    forgotten = b"\x02" + OLD.bytes + b"\x02" + struct.pack(">i", 1) + b"\0"
    head = struct.pack(">iiiibii", -1, 500, 1, 50_000, 1, 77, 3)
    ours = request().prepare({1: (4, 17)})
    assert ours.encode() == head + wanted + forgotten + b"\x05rack" + b"\0"
    assert (ours.API_KEY, ours.API_VERSION) == (1, 13)
    assert ours.build_request_header(9, "mm2").encode() == struct.pack(">hhih", 1, 13, 9, 3) + b"mm2" + b"\0"


def test_answer() -> None:
    def result(number: int, error: int, aborted: bytes, replica: int, records: bytes) -> bytes:
        return struct.pack(">ihqqq", number, error, 100, 90, 5) + aborted + struct.pack(">i", replica) + records

    two = b"\x03" + struct.pack(">qq", 8, 60) + b"\0" + struct.pack(">qq", 9, 61) + b"\0"
    current_leader = b"\x01\x01\x04four"  # a tagged field that is not used here
    diverging = b"\x01\x00\x0d" + struct.pack(">iq", 4, 65) + b"\0"
    body = (
        struct.pack(">ihi", 12, 0, 77)
        + b"\x04"
        + (ORDERS.bytes + b"\x03")
        + (result(3, 0, two, -1, b"\x08batches") + b"\0")
        + (result(1, 100, b"\0", -1, b"\0") + current_leader)
        + b"\0"
        + (PAYMENTS.bytes + b"\x02" + result(0, 0, b"\x01", 2, b"\x01") + diverging + b"\0")
        + (UUID(int=99).bytes + b"\x02" + result(0, 0, b"\x01", 2, b"\x02x") + b"\0" + b"\0")
        + b"\0"
    )
    ours = request().prepare({1: (4, 17)})
    raw = struct.pack(">i", 9) + b"\0" + body
    assert ours.answers(raw) == 9
    answer = ours.decode(raw)
    assert (answer.throttle_ms, answer.error, answer.session_id) == (12, 0, 77)
    assert answer.partitions == [
        FetchedPartition("orders", 3, 0, 100, 90, 5, [(8, 60), (9, 61)], -1, b"batches"),
        FetchedPartition("orders", 1, 100, 100, 90, 5, (), -1, b""),
        FetchedPartition("payments", 0, 0, 100, 90, 5, (), 2, b"", EpochEnd(4, 65)),
    ], "and nothing of a topic that was not asked for"
    assert answer.checks_epochs


def test_a_broker_without_topic_ids_gets_names() -> None:
    ours = request().prepare({1: (4, 11)})
    assert ours.API_VERSION == 11
    assert b"orders" in ours.encode()
    assert b"\0\0\0\0\0\x04rack" in ours.encode(), "a partition that is wanted is not forgotten by its name"


def test_version_12_has_names_and_the_last_fetched_epoch() -> None:
    ours = request().prepare({1: (4, 12)})
    wanted = b"\x07orders\x03" + partition(3, 5, 70, 1_000, 4) + partition(1, -1, 80, 1_000) + b"\0"
    assert ours.API_VERSION == 12
    assert b"\x03" + wanted + b"\x09payments\x02" + partition(0, -1, 0, 2_000) + b"\0" in ours.encode()
    assert ours.encode().endswith(b"\x01\x05rack\0"), "a partition that is wanted is not forgotten by its name"
