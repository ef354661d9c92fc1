"""What the producer of internal records decides without a broker."""

from __future__ import annotations

import pytest

from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.logs.control_producer import BufferFull, ControlProducer
from mm2.kafka.protocol.error_codes import ErrorCode

NOWHERE = ClientSettings(bootstrap_servers=("localhost:1",))


async def test_a_record_larger_than_the_buffer() -> None:
    """It would never find room, not even in an empty buffer."""
    async with ControlProducer(Cluster(NOWHERE), buffer_bytes=1_000) as producer:
        with pytest.raises(BrokerError, match=r"cannot write to t-3: the record of 1201 bytes is larger") as caught:
            producer.send("t", 3, b"k", bytes(1_000))
        assert (caught.value.code, caught.value.retriable) == (ErrorCode.MESSAGE_TOO_LARGE, False)
        producer.send("t", 3, None, bytes(800))
        with pytest.raises(BufferFull):
            producer.send("t", 3, None, b"")
