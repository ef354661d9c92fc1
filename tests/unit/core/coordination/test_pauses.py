from __future__ import annotations

import pytest

from mm2.core.coordination.pauses import (
    NO_PAUSES,
    PauseOrigin,
    Pauses,
    decode_pauses,
    encode_pauses,
    pause_message,
    pauses_flow,
)
from mm2.core.wire.formats import FormatError

ALICE = PauseOrigin(who="alice", reason="CHG-1234")
BOB = PauseOrigin(who="bob")
ORDERS = Pauses(topics=frozenset({"orders"}), since={"orders": 5}, origins={"orders": ALICE})


def test_paused_topics_and_flows() -> None:
    assert ORDERS.covers("orders")
    assert not ORDERS.covers("payments")
    assert Pauses(flow=True).covers("payments")
    assert not NO_PAUSES.covers("orders")


def test_pauses_are_combined_and_resumed_separately_or_together() -> None:
    both = ORDERS.pause(("payments", "orders"), at=7, origin=BOB)
    assert both.topics == {"orders", "payments"}
    everything = both.pause((), at=9, origin=ALICE)
    since = {"": 9, "orders": 5, "payments": 7}
    origins = {"": ALICE, "orders": ALICE, "payments": BOB}
    assert everything == Pauses(flow=True, topics=frozenset({"orders", "payments"}), since=since, origins=origins)
    assert everything.named == ("", "orders", "payments")
    left = everything.resume(("payments",))
    assert left == Pauses(
        flow=True, topics=frozenset({"orders"}), since={"": 9, "orders": 5}, origins={"": ALICE, "orders": ALICE}
    )
    assert left.pause(("payments", "orders"), at=20, origin=BOB).since == {"": 9, "orders": 5, "payments": 20}
    assert everything.resume(()) == NO_PAUSES
    assert NO_PAUSES.named == ()


def test_a_later_pause_changes_who_and_why_only_if_it_has_a_reason() -> None:
    assert ORDERS.pause(("orders",), at=7, origin=BOB) == ORDERS
    explained = PauseOrigin(who="bob", reason="disk")
    again = ORDERS.pause(("orders",), at=7, origin=explained)
    assert (again.since, again.origins) == ({"orders": 5}, {"orders": explained})
    assert Pauses(flow=True).pause((), at=7, origin=explained).origins == {"": explained}


def test_encoded_record() -> None:
    pauses = Pauses(topics=frozenset({"orders", "änderung"}))
    assert encode_pauses(pauses) == '{"flow":false,"topics":["orders","änderung"]}'.encode()
    assert decode_pauses(encode_pauses(pauses)) == pauses
    whole = pauses.pause((), at=1_763_740_800_000, origin=ALICE)
    whole = whole.pause(("users", "clicks"), at=1_763_740_860_000, origin=BOB)
    assert encode_pauses(whole) == (
        '{"flow":true,"topics":["clicks","orders","users","änderung"],"since":{"":1763740800000,'
        '"clicks":1763740860000,"orders":1763740800000,"users":1763740860000,"änderung":1763740800000},'
        '"origins":[{"who":"alice","reason":"CHG-1234","topics":[""]},'
        '{"who":"bob","reason":null,"topics":["clicks","users"]}]}'.encode()
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


@pytest.mark.parametrize(
    "origins",
    [
        "7",
        "[7]",
        '[{"who":"alice"}]',
        '[{"who":7,"reason":null,"topics":["orders"]}]',
        '[{"who":"alice","reason":null,"topics":[7,"payments"]}]',
    ],
)
def test_an_origin_that_cannot_be_read_is_unknown(origins: str) -> None:
    value = f'{{"flow":false,"topics":["orders"],"origins":{origins}}}'.encode()
    assert decode_pauses(value) == Pauses(topics=frozenset({"orders"}))


def test_messages() -> None:
    nov, later = 1_763_740_800_000, 1_763_740_860_000
    ends = "; mm2 resume ends the pause"
    assert pause_message((), {}, {}) is None
    assert pause_message(("", "orders"), {"": nov}, {}) == (
        f"the whole flow is paused by an operator since 2025-11-21T16:00:00Z{ends}"
    )
    assert pause_message(("orders", "users"), {}, {}) == f"paused by an operator: orders, users{ends}"
    assert pause_message(("users", "orders"), {"orders": nov, "users": nov}, {}) == (
        f"paused by an operator since 2025-11-21T16:00:00Z: orders, users{ends}"
    )
    assert pause_message(("users", "orders"), {"orders": nov, "users": later}, {}) == (
        f"paused by an operator: orders since 2025-11-21T16:00:00Z, users since 2025-11-21T16:01:00Z{ends}"
    )
    many = pause_message([f"t{n:02}" for n in range(12)], {}, {})
    assert many == f"paused by an operator: {', '.join(f't{n:02}' for n in range(10))} and 2 more{ends}"
    known = {"orders": ALICE, "users": BOB, "": PauseOrigin(who="eve", reason="a\n\x1b[2J")}
    assert pause_message(("",), {"": nov}, known) == (
        f"the whole flow is paused by an operator since 2025-11-21T16:00:00Z (eve: a\\n\\x1b[2J){ends}"
    )
    assert pause_message(("users", "orders"), {"orders": nov, "users": nov}, known) == (
        "paused by an operator: orders since 2025-11-21T16:00:00Z (alice: CHG-1234),"
        f" users since 2025-11-21T16:00:00Z (bob){ends}"
    )
    assert pause_message(("orders",), {}, known) == f"paused by an operator (alice: CHG-1234): orders{ends}"


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
