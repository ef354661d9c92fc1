"""`mm2.core.coordination.skips`."""

from __future__ import annotations

import pytest

from mm2.core.coordination.skips import NO_SKIPS, Skips, decode_skips, encode_skips
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 3)


def test_a_partition_has_one_skip_until_a_later_offset_is_stored() -> None:
    skips = NO_SKIPS.skip(ORDERS, 7).skip(ORDERS, 9).skip(PAYMENTS, 0)
    assert skips == Skips({ORDERS: 9, PAYMENTS: 0})
    assert skips.of([ORDERS]) == Skips({ORDERS: 9})
    assert NO_SKIPS.of([ORDERS]) is NO_SKIPS
    assert skips.still_due({ORDERS: 9, PAYMENTS: None}) == skips
    assert skips.still_due({ORDERS: 10, PAYMENTS: 1}) == NO_SKIPS


def test_encoded_record() -> None:
    skips = Skips({TopicPartition("änderung", 1): 5, ORDERS: 7})
    assert encode_skips(skips) == (
        '{"skips":[{"topic":"orders","partition":0,"offset":7},{"topic":"änderung","partition":1,"offset":5}]}'.encode()
    )
    assert decode_skips(encode_skips(skips)) == skips
    assert decode_skips(encode_skips(NO_SKIPS)) == decode_skips(None) == NO_SKIPS


@pytest.mark.parametrize(
    "value",
    [b"", b"[]", b'{"skips":1}', b'{"skips":[1]}', b'{"skips":[{"topic":"t","partition":"0","offset":1}]}'],
)
def test_invalid_records(value: bytes) -> None:
    with pytest.raises(FormatError, match="skips"):
        decode_skips(value)
