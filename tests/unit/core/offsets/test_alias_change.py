from __future__ import annotations

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.connect_offsets import alias_change

FLOW = Flow("A", "B")
ORDERS = [TopicPartition("orders", number) for number in range(3)]


def test_offsets_under_another_alias_are_reported() -> None:
    assert alias_change(FLOW, "A", ORDERS, stored=set(), elsewhere={"eu": set(ORDERS[1:])}) == (
        "source offsets, such as that of orders-1, are stored under the source alias eu, but the flow's is A"
        " (source.cluster.alias), so 2 partitions start without a stored offset (auto.offset.reset); to continue where"
        " copying ended, write A->B.source.cluster.alias = eu"
    )


def test_empty_alias() -> None:
    text = alias_change(FLOW, "", ORDERS[:1], stored=set(), elsewhere={"A": set(ORDERS)})
    assert text is not None
    assert "under the source alias A, but the flow's is (empty)" in text
    assert "so 1 partition starts without a stored offset" in text


def test_partitions_with_an_offset_under_the_alias_continue() -> None:
    assert alias_change(FLOW, "A", ORDERS, stored=set(ORDERS), elsewhere={"eu": set(ORDERS)}) is None


def test_other_and_deleted_topics_do_not_matter() -> None:
    assert alias_change(FLOW, "A", ORDERS, stored=set(), elsewhere={"eu": {TopicPartition("gone", 0)}}) is None
    assert alias_change(FLOW, "A", ORDERS, stored=set(), elsewhere={}) is None
