"""Where partitions without a stored offset start under ``latest``."""

from __future__ import annotations

import pytest

from mm2.core.coordination.latest_starts import (
    TopicSelection,
    decode_selection,
    encode_selection,
    latest_starts,
    starts_at_latest,
)
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import FetchSettings, OffsetReset
from mm2.core.wire.formats import FormatError

ORDERS = TopicSelection(topics=("orders.*",), exclude=(), filter_class="F")
MORE = TopicSelection(topics=("orders.*", "payments"), exclude=(), filter_class="F")
LISTED, ADDED, NEW = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("orders-new", 0)


@pytest.mark.parametrize(
    ("planned", "at_beginning"),
    [
        pytest.param(None, set(), id="the flow was never planned"),
        pytest.param(ORDERS, {ADDED, NEW}, id="created since"),
        pytest.param(MORE, {ADDED}, id="a topic of another selection can be old"),
    ],
)
def test_what_was_created_since_the_flow_was_planned_starts_at_its_beginning(
    planned: TopicSelection | None, at_beginning: set[TopicPartition]
) -> None:
    chosen = latest_starts([LISTED, ADDED, NEW], listed={LISTED}, selection=ORDERS, planned=planned)
    assert chosen.at_beginning == at_beginning
    assert chosen.at_end == {LISTED, ADDED, NEW} - at_beginning


@pytest.mark.parametrize(
    ("fetch", "expected"),
    [
        (FetchSettings(), False),
        (FetchSettings(auto_offset_reset=OffsetReset.LATEST), True),
        (FetchSettings(start=OffsetReset.LATEST), True),
        (FetchSettings(auto_offset_reset=OffsetReset.LATEST, start=OffsetReset.EARLIEST), False),
        (FetchSettings(auto_offset_reset=OffsetReset.LATEST, start=1_763_740_800_000), False),
        (FetchSettings(auto_offset_reset=OffsetReset.LATEST, start=0), False),
    ],
)
def test_mm2_start_takes_precedence(fetch: FetchSettings, expected: bool) -> None:
    assert starts_at_latest(fetch) is expected


def test_encoded_record() -> None:
    selection = TopicSelection(topics=("orders.*", "änderung"), exclude=("orders-tmp",), filter_class="acme.Filter")
    value = '{"topics":["orders.*","änderung"],"exclude":["orders-tmp"],"filter":"acme.Filter"}'.encode()
    assert encode_selection(selection) == value
    assert decode_selection(value) == selection
    assert decode_selection(None) is None


@pytest.mark.parametrize("value", [b"", b"[]", b'{"topics":[1],"exclude":[],"filter":"F"}', b'{"topics":[]}'])
def test_invalid_records(value: bytes) -> None:
    with pytest.raises(FormatError, match="read latest starts"):
        decode_selection(value)
