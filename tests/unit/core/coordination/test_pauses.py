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

ORDERS = Pauses(topics=frozenset({"orders"}))


def test_paused_topics_and_flows() -> None:
    assert ORDERS.covers("orders")
    assert not ORDERS.covers("payments")
    assert Pauses(flow=True).covers("payments")
    assert not NO_PAUSES.covers("orders")


def test_pauses_are_combined_and_resumed_separately_or_together() -> None:
    both = ORDERS.pause(("payments", "orders"))
    assert both.topics == {"orders", "payments"}
    everything = both.pause(())
    assert everything == Pauses(flow=True, topics=frozenset({"orders", "payments"}))
    assert everything.named == ("", "orders", "payments")
    assert everything.resume(("payments",)) == Pauses(flow=True, topics=frozenset({"orders"}))
    assert everything.resume(()) == NO_PAUSES
    assert NO_PAUSES.named == ()


def test_encoded_record() -> None:
    pauses = Pauses(topics=frozenset({"orders", "änderung"}))
    assert encode_pauses(pauses) == '{"flow":false,"topics":["orders","änderung"]}'.encode()
    assert decode_pauses(encode_pauses(pauses)) == pauses
    assert decode_pauses(encode_pauses(pauses.pause(()))) == pauses.pause(())
    assert decode_pauses(None) == NO_PAUSES


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


def test_message_about_pauses() -> None:
    assert pause_message(NO_PAUSES.named) is None
    assert pause_message(Pauses(flow=True).named) == (
        "the whole flow is paused by an operator; mm2 resume ends the pause"
    )
    assert pause_message(ORDERS.named) == "paused by an operator: orders; mm2 resume ends the pause"
    many = Pauses(topics=frozenset(f"t{number:02}" for number in range(12)))
    assert pause_message(many.named) == (
        "paused by an operator: t00, t01, t02, t03, t04, t05, t06, t07, t08, t09 and 2 more; mm2 resume ends the pause"
    )
