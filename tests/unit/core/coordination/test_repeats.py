"""Letters refer to the invariants of `mm2.core.coordination.repeats`."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mm2.core.coordination.query_history import ENTRIES_KEPT, QueryEntry, QueryHistory
from mm2.core.coordination.repeats import (
    FromEarliest,
    FromOffset,
    FromTime,
    PlannedRepeat,
    RefusedRepeatError,
    Repeat,
    Repeats,
    RepeatStart,
    RepeatState,
    drained,
    encode_repeat,
    is_repeat_key,
    plan_repeat,
    requested,
    some_of,
    unknown_history,
)
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError

ORDERS, PAYMENTS = TopicPartition("orders-eu", 3), TopicPartition("payments", 0)
ID = UUID(int=7)
PLAN = PlannedRepeat(partition=ORDERS, first=10, until=100)
NOW = 1_763_740_800_000


def asked(number: int = 0) -> Repeat:
    return requested(PLAN, number=number, by="alice", reason="CHG-1", topic_id=ID, now=NOW)


def after(*repeats: Repeat) -> Repeats:
    found = Repeats()
    for one in repeats:
        found.take(*encode_repeat(one))
    return found


# -- the record


def test_encoded_record() -> None:
    storing = asked().moved(RepeatState.STORING, NOW + 1, first=12, until=100)
    key, value = encode_repeat(storing)
    assert (key, value) == (
        b"mm2-repeat-orders-eu-3",
        b'{"number":1,"state":"storing","first":12,"until":100,"at":1763740800000,"changed":1763740800001,'
        b'"by":"alice","reason":"CHG-1","topicId":"00000000-0000-0000-0000-000000000007"}',
    )
    assert is_repeat_key(key)
    assert after(storing).of(ORDERS) == storing
    bare = replace(asked(), reason=None, topic_id=None)
    assert after(bare).of(ORDERS) == bare
    cancelled = asked().cancelled("gone", NOW)
    assert after(cancelled).of(ORDERS) == cancelled


def test_fields_of_other_types_are_unknown() -> None:
    repeats = Repeats()
    value = (
        b'{"number":1,"state":"started","first":0,"at":1,"changed":1,"by":"a","until":"x","reason":7,"topicId":"no"}'
    )
    assert repeats.take(b"mm2-repeat-t-0", value)
    found = repeats.of(TopicPartition("t", 0))
    assert found is not None
    assert (found.until, found.reason, found.topic_id) == (None, None, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"mm2-repeat-", b"{}"),
        (None, b"{}"),
        (b"mm2-repeat-t-0", b"{}"),
        (b"mm2-repeat-t-0", b"[]"),
        (b"mm2-repeat-t-0", b'{"number":1,"state":"other","first":0,"at":1,"changed":1,"by":"a"}'),
        (b"mm2-repeat-t-0", b'{"number":1,"state":"done","first":-1,"at":1,"changed":1,"by":"a"}'),
        (b"mm2-repeat-t-0", b'{"number":1,"state":"done","first":0,"at":-1,"changed":1,"by":"a"}'),
    ],
)
def test_records_of_others_are_rejected(key: bytes | None, value: bytes) -> None:
    with pytest.raises(FormatError, match="cannot read repeat"):
        Repeats().take(key, value)


def test_other_keys() -> None:
    assert not is_repeat_key(None)
    assert not is_repeat_key(b"mm2-paused")


# -- its states


def test_from_the_request_to_the_end() -> None:
    """(A), (C): the number counts when the start is stored."""
    first = asked()
    repeats = after(first)
    assert (repeats.pending, repeats.open, repeats.number(ORDERS)) == (frozenset({ORDERS}), (first,), 0)
    assert repeats.repeats(ORDERS, 5000), "what is not drained is not known"
    storing = drained(first, stored=120, earliest=0, now=NOW + 1)
    assert (storing.state, storing.first, storing.until) == (RepeatState.STORING, 10, 120)
    assert after(storing).pending == {ORDERS}
    assert drained(storing, stored=10, earliest=50, now=NOW + 2) is storing, "(B)"
    assert after(storing).number(ORDERS) == 0
    started = storing.moved(RepeatState.STARTED, NOW + 2)
    repeats = after(first, storing, started)
    assert (repeats.pending, repeats.open, repeats.number(ORDERS)) == (frozenset(), (started,), 1)
    assert repeats.repeats(ORDERS, 119)
    assert not repeats.repeats(ORDERS, 120)
    assert (repeats.copied_until(ORDERS, ID), repeats.copied_until(ORDERS, UUID(int=8))) == (120, 0)
    assert repeats.copied_until(ORDERS, None) == 0
    done = started.moved(RepeatState.DONE, NOW + 3)
    repeats = after(started, done)
    assert (repeats.open, repeats.number(ORDERS), repeats.copied_until(ORDERS, ID)) == ((), 1, 0)
    assert not repeats.repeats(ORDERS, 0)
    assert asked(repeats.number(ORDERS)).number == 2


def test_a_partition_that_was_never_copied_again() -> None:
    repeats = Repeats()
    assert (repeats.of(ORDERS), repeats.number(ORDERS), repeats.copied_until(ORDERS, ID)) == (None, 0, 0)
    assert not repeats.repeats(ORDERS, 0)


def test_the_same_record_is_no_change_and_a_null_value_deletes() -> None:
    repeats = Repeats()
    assert repeats.take(*encode_repeat(asked()))
    assert not repeats.take(*encode_repeat(asked()))
    assert repeats.take(encode_repeat(asked())[0], None)
    assert (repeats.of(ORDERS), repeats.pending) == (None, frozenset())


def test_what_has_expired_since_the_request_is_left_out() -> None:
    assert drained(asked(), stored=100, earliest=40, now=NOW).first == 40
    cancelled = drained(asked(), stored=100, earliest=100, now=NOW)
    assert (cancelled.state, after(cancelled).number(ORDERS)) == (RepeatState.CANCELLED, 0)
    assert cancelled.note == "the source has no record before offset 100, where copying continues"
    assert drained(asked(), stored=None, earliest=0, now=NOW).note == "no offset is stored"


def test_a_started_repeat_that_is_cancelled_keeps_its_number() -> None:
    started = asked().moved(RepeatState.STARTED, NOW, until=100)
    assert after(started.cancelled("recreated", NOW)).number(ORDERS) == 1


def test_topic_ids() -> None:
    assert asked().is_of_another(UUID(int=8))
    assert not asked().is_of_another(ID)
    assert not asked().is_of_another(None)
    assert not replace(asked(), topic_id=None).is_of_another(ID)


def test_events_of_the_partition() -> None:
    repeat = asked()
    request = "alice requested to copy it again from offset 10"
    assert repeat.events == (
        (NOW, f"{request}: CHG-1"),
        (NOW, "waiting until its offset is stored, to copy again from offset 10"),
    )
    assert replace(repeat, reason=None).events[0] == (NOW, request)
    storing = repeat.moved(RepeatState.STORING, NOW + 1, until=100)
    assert storing.last_word == repeat.last_word
    assert storing.moved(RepeatState.STARTED, NOW + 2).events[1] == (NOW + 2, "copying offsets 10-99 again")
    assert storing.moved(RepeatState.DONE, NOW + 3).last_word == "copied offsets 10-99 again"
    assert repeat.cancelled("gone", NOW).last_word == "not copied again from offset 10: gone"


# -- plans


@pytest.mark.parametrize(
    ("start", "stored", "earliest", "planned"),
    [
        (FromOffset(offset=0), 100, 0, (0, 100)),
        (FromOffset(offset=99), 100, 50, (99, 100)),
        (FromOffset(offset=50), 100, 50, (50, 100)),
        (FromTime(time=0, offset=20), 100, 0, (20, 100)),
        (FromTime(time=0, offset=20), 100, 30, (30, 100)),
        (FromEarliest(), 100, 30, (30, 100)),
    ],
)
def test_what_is_repeated(start: RepeatStart, stored: int, earliest: int, planned: tuple[int, int]) -> None:
    found = plan_repeat(ORDERS, start, stored=stored, earliest=earliest)
    assert isinstance(found, PlannedRepeat)
    assert (found.first, found.until, found.offsets) == (*planned, planned[1] - planned[0])


@pytest.mark.parametrize(
    ("start", "stored", "earliest", "text"),
    [
        (FromEarliest(), None, 0, "nothing of orders-eu-3 is copied yet"),
        (FromEarliest(), 0, 0, "orders-eu-3 has no record before offset 0, where copying continues"),
        (FromEarliest(), 100, 120, "orders-eu-3 has no record before offset 100, where copying continues"),
        (FromOffset(offset=100), 100, 0, "orders-eu-3 has no record before offset 100, where copying continues"),
        (FromTime(time=0, offset=None), 100, 0, "no record of orders-eu-3 since 1970-01-01T00:00:00Z is copied yet"),
        (FromTime(time=0, offset=100), 100, 0, "no record of orders-eu-3 since 1970-01-01T00:00:00Z is copied yet"),
    ],
)
def test_nothing_to_repeat(start: RepeatStart, stored: int | None, earliest: int, text: str) -> None:
    assert plan_repeat(ORDERS, start, stored=stored, earliest=earliest) == text


def test_records_are_never_skipped() -> None:
    with pytest.raises(RefusedRepeatError, match="offset 101 of orders-eu-3 is not copied yet, so the records before"):
        plan_repeat(ORDERS, FromOffset(offset=101), stored=100, earliest=0)


def test_an_expired_start_says_where_the_log_starts() -> None:
    with pytest.raises(RefusedRepeatError, match="deleted offset 5 of orders-eu-3: its log starts at offset 40"):
        plan_repeat(ORDERS, FromOffset(offset=5), stored=100, earliest=40)


def history(*offsets: int) -> QueryHistory:
    return QueryHistory(tuple(QueryEntry(offset, "a" * 64, at) for at, offset in enumerate(offsets)))


def test_unknown_history_of_a_query() -> None:
    other = PlannedRepeat(partition=PAYMENTS, first=5, until=9)
    full = history(*range(20, 20 + ENTRIES_KEPT))
    assert unknown_history([PLAN, other], {}) is None
    assert unknown_history([PLAN, other], {ORDERS: history(50), PAYMENTS: history(0)}) is None
    assert unknown_history([PLAN, other], {ORDERS: QueryHistory(), PAYMENTS: full}) == "orders-eu-3, payments-0"
    assert unknown_history([replace(PLAN, first=20)], {ORDERS: full}) is None


def test_a_message_names_some() -> None:
    assert some_of(["a", "b"]) == "a, b"
    assert some_of([str(number) for number in range(22)]).endswith("18, 19 and 2 more")
