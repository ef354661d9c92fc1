"""The state of each recorded loss, and which of them nobody has accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.lanes.loss_book import LossBook
from mm2.core.lanes.losses import (
    LOSSES_KEPT,
    Loss,
    LossKind,
    decode_loss,
    decode_loss_key,
    encode_loss,
    encode_loss_key,
)
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError

LOSS = Loss(
    topic="orders",
    partition=0,
    first=10,
    until=25,
    reason="gone",
    kind=LossKind.RETENTION,
    time=100,
    remote_topic="A.orders",
)
ACCEPTED = LOSS.accept(at=200, by="ann", reason="ticket 4711")
ORDERS_0 = TopicPartition("orders", 0)


def book(*losses: Loss) -> LossBook:
    found = LossBook()
    for loss in losses:
        found.take(loss)
    return found


def remote(topic: str) -> str:
    return f"A.{topic}"


def test_a_loss_waits_until_it_is_accepted() -> None:
    assert book(LOSS).unaccepted == (LOSS,)
    assert book(LOSS, ACCEPTED).unaccepted == ()
    assert book(replace(LOSS, kind=LossKind.SKIPPED), replace(LOSS, kind=LossKind.DEAD_LETTER)).unaccepted == ()
    assert book(ACCEPTED).take(ACCEPTED).time == 100


def test_a_loss_that_is_noticed_again_stays_accepted_and_keeps_its_time() -> None:
    again = replace(LOSS, time=300)
    assert book(ACCEPTED).take(again) == ACCEPTED
    assert book(LOSS).take(replace(again, remote_topic=None)) == LOSS
    assert book(replace(LOSS, time=None)).take(again).time == 300


def test_a_loss_that_has_grown_needs_another_acceptance() -> None:
    grown = book(ACCEPTED).take(replace(LOSS, until=40, time=300))
    assert (grown.accepted, grown.time, grown.until) == (False, 100, 40)
    late = book(replace(LOSS, until=40)).take(ACCEPTED)
    assert (late.accepted, late.until) == (False, 40), "it has grown while an operator accepted the smaller one"


def test_deleted_records_are_forgotten() -> None:
    found, other = book(LOSS), replace(LOSS, first=30, until=31)
    assert found.newest(ORDERS_0) == LOSS
    found.take(other)
    found.remove(LOSS.key)
    found.remove(LOSS.key)
    assert (found.unaccepted, found.newest(ORDERS_0)) == ((other,), other)
    found.remove(other.key)
    assert (found.unaccepted, found.newest(ORDERS_0)) == ((), None)


def test_reported_losses_are_shown_as_they_are_recorded() -> None:
    earlier, new = replace(LOSS, first=1, until=2), replace(LOSS, first=50, until=60)
    found = book(earlier, ACCEPTED)
    assert found.shown([LOSS, new]) == (earlier, ACCEPTED, new)
    many = [replace(LOSS, first=number, until=number + 1) for number in range(LOSSES_KEPT + 5)]
    assert book(*many).shown(()) == tuple(many[5:])


def test_unaccepted_losses_are_counted_by_remote_partition_and_kind() -> None:
    old = replace(LOSS, first=1, until=2, remote_topic=None)
    found = book(old, LOSS, replace(LOSS, partition=1, kind=LossKind.TRUNCATED, count=3))
    not_recorded = [LOSS, replace(LOSS, first=70, until=71), replace(LOSS, first=80, until=81, kind="skipped")]
    assert found.count_unaccepted(not_recorded, remote) == {
        (TopicPartition("A.orders", 0), "retention"): 3,
        (TopicPartition("A.orders", 1), "truncated"): 3,
    }
    assert book(ACCEPTED).count_unaccepted([LOSS], remote) == {}, "a lane reports it as it was"


@pytest.mark.parametrize("loss", [LOSS, ACCEPTED, replace(LOSS, topic_id="an ID")])
def test_records(loss: Loss) -> None:
    assert decode_loss(encode_loss_key(loss), encode_loss(loss)) == loss
    assert decode_loss_key(encode_loss_key(loss)) == loss.key


def test_a_record_of_an_earlier_release() -> None:
    value = b'{"topic":"t","partition":0,"first":1,"last":2,"time":5,"reason":"r","kind":"retention","accepted":true}'
    loss = decode_loss(b"{}", value)
    assert loss is not None
    assert (loss.accepted, loss.accepted_at, loss.accepted_by, loss.accept_reason, loss.remote_topic) == (
        True,
        None,
        None,
        None,
        None,
    )


@pytest.mark.parametrize("key", [None, b"[]", b'{"topic":"t"}'])
def test_an_unreadable_key(key: bytes | None) -> None:
    with pytest.raises(FormatError):
        decode_loss_key(key)
