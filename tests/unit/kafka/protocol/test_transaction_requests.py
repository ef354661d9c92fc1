"""InitProducerId byte by byte, as in Kafka's message definitions; the other requests are aiokafka's."""

from __future__ import annotations

import pytest

from mm2.kafka.errors import NotSupported
from mm2.kafka.protocol.transaction_requests import NO_PRODUCER, InitAnswer, InitProducerIdRequest, ProducerIdAndEpoch

INIT_PRODUCER_ID = 22


@pytest.mark.parametrize(
    ("continues", "raw"),
    [
        (NO_PRODUCER, "ffffffffffffffff ffff"),
        (ProducerIdAndEpoch(7_000, 3), "0000000000001b58 0003"),
    ],
)
@pytest.mark.parametrize("highest", [3, 4, 6])
def test_request(continues: ProducerIdAndEpoch, raw: str, highest: int) -> None:
    ours = InitProducerIdRequest("mm2", 60_000, continues).prepare({INIT_PRODUCER_ID: (0, highest)})
    assert ours.encode() == bytes.fromhex(f"04 6d6d32 0000ea60 {raw} 00")
    assert min(highest, 4) == ours.API_VERSION
    header = ours.build_request_header(5, "c").encode()
    assert header == bytes.fromhex(f"0016 000{min(highest, 4)} 00000005 0001 63 00")


def test_answer() -> None:
    raw = bytes.fromhex("00000005 00  000000fa 0000 0000000000001b58 0004 00")
    ours = InitProducerIdRequest("mm2", 60_000, NO_PRODUCER).prepare({INIT_PRODUCER_ID: (0, 4)})
    assert ours.answers(raw) == 5
    assert ours.decode(raw) == InitAnswer(0, ProducerIdAndEpoch(7_000, 4))


@pytest.mark.parametrize("versions", [{INIT_PRODUCER_ID: (0, 2)}, {}])
def test_a_broker_that_is_too_old(versions: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(NotSupported, match="older than Kafka 2"):
        InitProducerIdRequest("mm2", 60_000, NO_PRODUCER).prepare(versions)
