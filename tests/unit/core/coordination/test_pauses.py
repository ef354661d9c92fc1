from __future__ import annotations

import pytest

from mm2.core.coordination.pauses import (
    NO_PAUSES,
    Pauses,
    decode_pauses,
    encode_pauses,
    pause_message,
    pauses_flow,
)
from mm2.core.wire.formats import FormatError

ORDERS = Pauses(topics=frozenset({"orders"}), since={"orders": 5})


def test_paused_topics_and_flows() -> None:
    assert ORDERS.covers("orders")
    assert not ORDERS.covers("payments")
    assert Pauses(flow=True).covers("payments")
    assert not NO_PAUSES.covers("orders")


def test_pauses_are_combined_and_resumed_separately_or_together() -> None:
    both = ORDERS.pause(("payments", "orders"), at=7)
    assert both.topics == {"orders", "payments"}
    everything = both.pause((), at=9)
    since = {"": 9, "orders": 5, "payments": 7}
    assert everything == Pauses(flow=True, topics=frozenset({"orders", "payments"}), since=since)
    assert everything.named == ("", "orders", "payments")
    left = everything.resume(("payments",))
    assert left == Pauses(flow=True, topics=frozenset({"orders"}), since={"": 9, "orders": 5})
    assert left.pause(("payments", "orders"), at=20).since == {"": 9, "orders": 5, "payments": 20}
    assert everything.resume(()) == NO_PAUSES
    assert NO_PAUSES.named == ()


def test_encoded_record() -> None:
    pauses = Pauses(topics=frozenset({"orders", "änderung"}))
    assert encode_pauses(pauses) == '{"flow":false,"topics":["orders","änderung"]}'.encode()
    assert decode_pauses(encode_pauses(pauses)) == pauses
    whole = pauses.pause((), at=1_763_740_800_000)
    assert encode_pauses(whole) == (
        '{"flow":true,"topics":["orders","änderung"],"since":{"":1763740800000,"orders":1763740800000,'
        '"änderung":1763740800000}}'.encode()
    )
    assert decode_pauses(encode_pauses(whole)) == whole
    assert decode_pauses(None) == NO_PAUSES


@pytest.mark.parametrize(
    "since", ["", ',"since":7', ',"since":{}', ',"since":{"orders":"x"}', ',"since":{"orders":-1}']
)
def test_a_record_without_a_time_has_its_own(since: str) -> None:
    """Records of older releases, and of nobody we know."""
    value = f'{{"flow":false,"topics":["orders"]{since}}}'.encode()
    assert decode_pauses(value, 1_763_740_800_000).since == {"orders": 1_763_740_800_000}
    assert decode_pauses(value).since == {}


def test_messages() -> None:
    nov, later = 1_763_740_800_000, 1_763_740_860_000
    ends = "; mm2 resume ends the pause"
    assert pause_message((), {}) is None
    assert pause_message(("", "orders"), {"": nov}) == (
        f"the whole flow is paused by an operator since 2025-11-21T16:00:00Z{ends}"
    )
    assert pause_message(("orders", "users"), {}) == f"paused by an operator: orders, users{ends}"
    assert pause_message(("users", "orders"), {"orders": nov, "users": nov}) == (
        f"paused by an operator since 2025-11-21T16:00:00Z: orders, users{ends}"
    )
    assert pause_message(("users", "orders"), {"orders": nov, "users": later}) == (
        f"paused by an operator: orders since 2025-11-21T16:00:00Z, users since 2025-11-21T16:01:00Z{ends}"
    )
    many = pause_message([f"t{n:02}" for n in range(12)], {})
    assert many == f"paused by an operator: {', '.join(f't{n:02}' for n in range(10))} and 2 more{ends}"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"flow":1,"topics":[]}',
        b'{"flow":true}',
        b'{"flow":true,"topics":"orders"}',
        b'{"flow":true,"topics":[1]}',
    ],
)
def test_invalid_records(value: bytes) -> None:
    with pytest.raises(FormatError, match="read pauses"):
        decode_pauses(value)


def test_a_flow_is_paused_as_a_whole() -> None:
    assert pauses_flow(Pauses(flow=True).named, ())
    assert pauses_flow(ORDERS.named, ("orders",)), "all of its topics are paused"
    assert not pauses_flow(ORDERS.named, ("orders", "payments"))
    assert not pauses_flow(ORDERS.named, ()), "no topic is known"
