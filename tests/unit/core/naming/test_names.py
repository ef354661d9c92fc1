from __future__ import annotations

import pytest

from mm2.core.naming.names import Flow, TopicPartition


def test_flow_text_form() -> None:
    assert Flow.parse("A->B") == Flow("A", "B")
    assert str(Flow("A", "B")) == "A->B"


@pytest.mark.parametrize("text", ["A", "A->", "->B", "A-B", ""])
def test_invalid_flows(text: str) -> None:
    with pytest.raises(ValueError, match="is not a flow"):
        Flow.parse(text)


def test_partition_text_form_as_in_kafka() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
