"""What operators read about partitions without a stored offset of which the target has copies."""

from __future__ import annotations

import pytest

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.connect_offsets import is_lost_offset, lost_offset, start_setting, unknown_copies
from mm2.core.settings.client import FetchSettings, OffsetReset

ORDERS, REMOTE = TopicPartition("orders", 1), TopicPartition("A.orders", 1)


@pytest.mark.parametrize(
    ("fetch", "setting"),
    [
        (FetchSettings(), "auto.offset.reset = earliest"),
        (FetchSettings(start=OffsetReset.LATEST), "mm2.start = latest"),
        (FetchSettings(start=1_760_000_000_000), "the time of mm2.start"),
    ],
)
def test_a_partition_is_stopped_with_its_command(fetch: FetchSettings, setting: str) -> None:
    text = lost_offset(ORDERS, REMOTE, flow=Flow("A", "B"), offsets_topic="mm2-offsets.A.internal", fetch=fetch)
    assert start_setting(fetch) == setting
    assert text == (
        "no offset of orders-1 is stored in mm2-offsets.A.internal, although A.orders-1 has records: they would be"
        " copied again, or others left out. Its stored offset was deleted or expired, or another program copied them."
        f" To start it at {setting}: mm2 accept-loss FILE --flow 'A->B' --topic orders --partition 1"
    )
    assert is_lost_offset(ORDERS, text)
    assert not is_lost_offset(TopicPartition("orders", 0), text)
    assert not is_lost_offset(ORDERS, None)


def test_a_partition_that_waits_for_the_target_is_not_stopped() -> None:
    text = unknown_copies(ORDERS, REMOTE, RuntimeError("no answer"))
    assert text == "orders-1 has no stored offset; cannot find out whether A.orders-1 has copies: no answer"
    assert not is_lost_offset(ORDERS, text)
