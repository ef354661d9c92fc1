"""Records of the losses topic."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mm2.core.lanes.losses import Loss, LossKind, decode_loss, encode_loss, encode_loss_key
from mm2.core.wire.formats import FormatError

LOSS = Loss(
    topic="orders",
    partition=0,
    first=100,
    until=200,
    reason="retention - too fast",
    kind=LossKind.RETENTION,
    time=1_763_740_800_000,
)
VALUE = (
    '{"topic":"orders","partition":0,"first":100,"last":199,"time":1763740800000,'
    '"reason":"retention - too fast","kind":"retention"}'
)
STOPPED = Loss(
    topic="orders",
    partition=3,
    first=5,
    until=5,
    reason="r",
    kind=LossKind.OUT_OF_RANGE,
    time=1,
    count=3,
    lost=0,
    topic_id="f7b3b9b4-3c0a-4a3e-8a36-6a8f0a1f0c2d",
    stops="flow",
    accepted=True,
)


def test_bytes_of_a_record() -> None:
    assert encode_loss_key(LOSS) == b'{"topic":"orders","partition":0,"first":100,"kind":"retention"}'
    assert encode_loss(LOSS).decode() == VALUE


def test_losses_of_topics_of_the_same_name_have_different_keys() -> None:
    keys = {encode_loss_key(replace(LOSS, topic_id=topic_id)) for topic_id in (None, "a", "b")}
    assert len(keys) == 3


@pytest.mark.parametrize("loss", [LOSS, STOPPED])
def test_a_record_is_read_as_it_was_written(loss: Loss) -> None:
    assert decode_loss(encode_loss_key(loss), encode_loss(loss)) == loss


def test_a_later_release_may_add_kinds_and_fields() -> None:
    value = json.loads(VALUE) | {"kind": "moon-phase", "colour": [1], "stops": "cluster"}
    loss = decode_loss(None, json.dumps(value).encode())
    assert loss is not None
    assert (loss.kind, loss.stops, loss.awaits_acceptance) == ("moon-phase", "cluster", True)


def test_only_the_range_its_cause_and_the_reason_are_required() -> None:
    loss = decode_loss(None, b'{"topic":"t","partition":0,"first":0,"last":-1,"reason":"r","kind":"retention"}')
    assert loss == Loss(topic="t", partition=0, first=0, until=0, reason="r", kind="retention")
    assert loss is not None
    assert (loss.time, loss.count, loss.offsets) == (None, 1, 0)


def test_an_unknown_time_is_written_as_zero() -> None:
    loss = Loss(topic="t", partition=0, first=0, until=1, reason="r", kind="retention")
    assert json.loads(encode_loss(loss))["time"] == 0
    assert decode_loss(encode_loss_key(loss), encode_loss(loss)) == loss


def test_a_null_value_deletes_a_loss() -> None:
    assert decode_loss(encode_loss_key(LOSS), None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"x", b"not json"),
        (b"x", b"[]"),
        (b"x", b'{"topic":"t","partition":0,"first":0,"reason":"r","kind":"retention"}'),
        (b"x", b'{"topic":"t","partition":-1,"first":0,"last":1,"reason":"r","kind":"retention"}'),
        (b"x", b'{"topic":"t","partition":0,"first":-5,"last":1,"reason":"r","kind":"retention"}'),
        (b"x", b'{"topic":"t","partition":0,"first":5,"last":1,"reason":"r","kind":"retention"}'),
        (b"x", b'{"topic":"t","partition":0,"first":5,"last":9,"reason":"r","kind":7}'),
        (b"x", b'{"topic":"t","partition":0,"first":5,"last":9,"reason":"r"}'),
        (b"x", b'{"topic":"t","partition":0,"first":5,"last":9,"reason":"r","kind":"retention","topicId":7}'),
        (b"x", b'{"topic":"t","partition":0,"first":5,"last":9,"reason":"r","kind":"retention","count":"7"}'),
        (b"x", b'{"topic":"t","partition":0,"first":5,"last":9,"reason":"r","kind":"retention","lost":true}'),
        (b"x", b'{"topic":"t","partition":0,"first":5,"last":9,"reason":"r","kind":"retention","lost":-1}'),
    ],
)
def test_other_bytes_are_an_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(FormatError, match="cannot read loss"):
        decode_loss(key, value)


def test_a_loss_noticed_again_is_the_same_loss() -> None:
    again = Loss(topic="orders", partition=0, first=100, until=250, reason="other", kind="retention", time=9)
    assert LOSS.is_same(again)
    assert not LOSS.is_same(STOPPED)


def test_a_merged_loss_counts_what_was_lost_in_it() -> None:
    assert LOSS.offsets == 100
    assert (
        Loss(topic="t", partition=0, first=0, until=100, reason="r", kind="retention", count=2, lost=30).offsets == 30
    )
