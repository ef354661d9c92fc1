"""The bytes of OffsetForLeaderEpoch, spelled out by the schema of Kafka's OffsetForLeaderEpochRequest.json."""

from __future__ import annotations

import struct

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.kafka.client.epoch_ends import OffsetForLeaderEpochRequest, WantedEpoch
from mm2.kafka.errors import NotSupported

ORDERS, PAYMENTS = TopicPartition("orders", 3), TopicPartition("payments", 0)
REQUEST = OffsetForLeaderEpochRequest({ORDERS: WantedEpoch(5, 7), PAYMENTS: WantedEpoch(2, -1)})
ANSWER = {ORDERS: (0, EpochEnd(4, 900)), PAYMENTS: (74, EpochEnd(-1, -1))}


def test_version_3() -> None:
    ours = REQUEST.prepare({23: (0, 3)})
    orders = b"\0\x06orders" + struct.pack(">iiii", 1, 3, 7, 5)
    payments = b"\0\x08payments" + struct.pack(">iiii", 1, 0, -1, 2)
    assert (ours.API_KEY, ours.API_VERSION) == (23, 3)
    assert ours.encode() == struct.pack(">ii", -1, 2) + orders + payments
    orders = b"\0\x06orders" + struct.pack(">ihiiq", 1, 0, 3, 4, 900)
    payments = b"\0\x08payments" + struct.pack(">ihiiq", 1, 74, 0, -1, -1)
    assert ours.decode(struct.pack(">iii", 9, 12, 2) + orders + payments) == ANSWER


def test_version_4() -> None:
    ours = REQUEST.prepare({23: (2, 4)})
    orders = b"\x07orders\x02" + struct.pack(">iii", 3, 7, 5) + b"\0\0"
    payments = b"\x09payments\x02" + struct.pack(">iii", 0, -1, 2) + b"\0\0"
    assert ours.API_VERSION == 4
    assert ours.encode() == struct.pack(">i", -1) + b"\x03" + orders + payments + b"\0"
    orders = b"\x07orders\x02" + struct.pack(">hiiq", 0, 3, 4, 900) + b"\0\0"
    payments = b"\x09payments\x02" + struct.pack(">hiiq", 74, 0, -1, -1) + b"\0\0"
    raw = struct.pack(">i", 9) + b"\0" + struct.pack(">i", 12) + b"\x03" + orders + payments + b"\0"
    assert ours.decode(raw) == ANSWER


def test_brokers_that_are_too_old() -> None:
    with pytest.raises(NotSupported, match=r"older than Kafka 2\.3"):
        REQUEST.prepare({23: (0, 2)})
