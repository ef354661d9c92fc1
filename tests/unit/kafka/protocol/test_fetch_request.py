"""Our Fetch bytes compared with aiokafka's schemas, which are independent of ours."""

from __future__ import annotations

from typing import Any

import aiokafka.protocol.fetch as theirs
import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.errors import NotSupported
from mm2.kafka.protocol.fetch_request import FetchedPartition, FetchFrom, FetchRequest

VERSIONS = range(4, 12)


def request(**changes: Any) -> FetchRequest:
    fields: dict[str, Any] = {
        "partitions": {
            TopicPartition("orders", 3): FetchFrom(70, 1_000, 5),
            TopicPartition("payments", 0): FetchFrom(0, 2_000),
            TopicPartition("orders", 1): FetchFrom(80, 1_000),
        },
        "forgotten": {TopicPartition("old", 2): None, TopicPartition("old", 4): None},
        "session_id": 77,
        "session_epoch": 3,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 50_000,
        "isolation": IsolationLevel.READ_COMMITTED,
        "rack": "rack-ß",
    }
    return FetchRequest(**(fields | changes))


@pytest.mark.parametrize("version", VERSIONS)
def test_request(version: int) -> None:
    def partition(number: int, offset: int, max_bytes: int, epoch: int = -1) -> tuple[int, ...]:
        if version >= 9:
            return number, epoch, offset, -1, max_bytes
        return (number, offset, -1, max_bytes) if version >= 5 else (number, offset, max_bytes)

    topics = [
        ("orders", [partition(3, 70, 1_000, 5), partition(1, 80, 1_000)]),
        ("payments", [partition(0, 0, 2_000)]),
    ]
    fields: list[Any] = [-1, 500, 1, 50_000, 1]
    fields += [77, 3, topics, [("old", [2, 4])]] if version >= 7 else [topics]
    fields += ["rack-ß"] if version >= 11 else []
    struct = getattr(theirs, f"FetchRequest_v{version}")(*fields)
    ours = request().prepare({1: (4, version)})
    assert ours.encode() == struct.encode()
    assert ours.API_KEY == 1
    assert version == ours.API_VERSION
    header = struct.build_request_header(correlation_id=9, client_id="mm2")
    assert ours.build_request_header(9, "mm2").encode() == header.encode()


@pytest.mark.parametrize("version", VERSIONS)
def test_answer(version: int) -> None:
    def partition(number: int, error: int, aborted: Any, replica: int, records: bytes | None) -> tuple[Any, ...]:
        log_start = [5] if version >= 5 else []
        preferred = [replica] if version >= 11 else []
        return number, error, 100, 90, *log_start, aborted, *preferred, records

    topics = [
        ("orders", [partition(3, 0, [(8, 60), (9, 61)], -1, b"batches"), partition(1, 1, None, -1, None)]),
        ("payments", [partition(0, 0, [], 2, b"")]),
    ]
    head = [12, 0, 77] if version >= 7 else [12]
    raw = b"\0\0\0\x09" + getattr(theirs, f"FetchResponse_v{version}")(*head, topics).encode()
    ours = request().prepare({1: (0, version)})
    assert ours.answers(raw) == 9
    answer = ours.decode(raw)
    assert (answer.throttle_ms, answer.error, answer.session_id) == (12, 0, 77 if version >= 7 else 0)
    assert not answer.checks_epochs
    log_start = 5 if version >= 5 else -1
    assert answer.partitions == [
        FetchedPartition("orders", 3, 0, 100, 90, log_start, [(8, 60), (9, 61)], -1, b"batches"),
        FetchedPartition("orders", 1, 1, 100, 90, log_start, (), -1, b""),
        FetchedPartition("payments", 0, 0, 100, 90, log_start, (), 2 if version >= 11 else -1, b""),
    ]


def test_brokers_that_are_too_old() -> None:
    with pytest.raises(NotSupported, match="Fetch versions 0 to 3, but this client needs 4 to 12"):
        request().prepare({1: (0, 3)})
    with pytest.raises(NotSupported):
        request().prepare({1: (13, 17)})
    with pytest.raises(NotSupported):
        request().prepare({})
