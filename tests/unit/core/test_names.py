from __future__ import annotations

import pytest

from mm2.core.names import Flow, TopicPartition


def test_flows_are_read_and_shown_with_an_arrow() -> None:
    assert Flow.parse("A->B") == Flow("A", "B")
    assert str(Flow("A", "B")) == "A->B"


@pytest.mark.parametrize("text", ["A", "A->", "->B", "A-B", ""])
def test_anything_else_is_no_flow(text: str) -> None:
    with pytest.raises(ValueError, match="is not a flow"):
        Flow.parse(text)


def test_a_partition_is_shown_as_kafka_shows_it() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
