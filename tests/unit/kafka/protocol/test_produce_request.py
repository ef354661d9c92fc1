"""Our Produce bytes compared with aiokafka's schemas, which are independent of ours."""

from __future__ import annotations

import aiokafka.protocol.produce as theirs
import pytest

from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import NotSupported
from mm2.kafka.protocol.produce_request import ProducedPartition, ProduceRequest

VERSIONS = range(3, 9)

REQUEST = ProduceRequest(
    acks=-1,
    timeout_ms=30_000,
    batches={
        TopicPartition("A.orders", 3): (b"head", memoryview(b"records")),
        TopicPartition("A.payments", 0): (b"whole",),
        TopicPartition("A.orders", 1): (b"", b"x"),
    },
)


@pytest.mark.parametrize("version", VERSIONS)
def test_request(version: int) -> None:
    topics = [("A.orders", [(3, b"headrecords"), (1, b"x")]), ("A.payments", [(0, b"whole")])]
    struct = getattr(theirs, f"ProduceRequest_v{version}")(None, -1, 30_000, topics)
    ours = REQUEST.prepare({0: (3, version)})
    assert ours.encode() == struct.encode()
    assert ours.API_KEY == 0
    assert version == ours.API_VERSION


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_a_transaction(version: int) -> None:
    struct = getattr(theirs, f"ProduceRequest_v{version}")(
        "connect-clüster", -1, 1_000, [("A.orders", [(3, b"batch")])]
    )
    batches = {TopicPartition("A.orders", 3): (b"batch",)}
    ours = ProduceRequest(acks=-1, timeout_ms=1_000, batches=batches, transactional_id="connect-clüster")
    assert ours.prepare({0: (3, version)}).encode() == struct.encode()


@pytest.mark.parametrize("version", VERSIONS)
def test_answer(version: int) -> None:
    def tail(errors: list[tuple[int, str | None]], message: str | None) -> tuple[object, ...]:
        return (*((5,) if version >= 5 else ()), *((errors, message) if version >= 8 else ()))

    topics = [
        ("A.orders", [(3, 0, 1_000, -1, *tail([], None)), (1, 87, -1, -1, *tail([(4, "bad"), (7, None)], "räson"))])
    ]
    raw = b"\0\0\0\x09" + getattr(theirs, f"ProduceResponse_v{version}")(topics, 250).encode()
    ours = REQUEST.prepare({0: (0, version)})
    assert ours.answers(raw) == 9
    answer = ours.decode(raw)
    assert answer.throttle_ms == 250
    told = ([(4, "bad"), (7, None)], "räson") if version >= 8 else ([], None)
    assert answer.partitions == [
        ProducedPartition("A.orders", 3, 0, 1_000, [], None),
        ProducedPartition("A.orders", 1, 87, -1, *told),
    ]


def test_a_broker_that_is_too_old() -> None:
    with pytest.raises(NotSupported, match="Produce versions 0 to 2, but this client needs 3 to 8"):
        REQUEST.prepare({0: (0, 2)})
