"""`mm2.core.coordination.query_history_records`: the histories of queries in the config topic."""

from __future__ import annotations

from uuid import UUID

import pytest

from mm2.core.coordination.query_history import NO_HISTORY, QueryEntry, QueryHistory, QueryText, QueryUse
from mm2.core.coordination.query_history_records import (
    QueriesUnreadableError,
    QueryHistories,
    encode_history,
    encode_query,
    is_query_key,
)
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError

ORDERS = TopicPartition("my-orders", 12)
MASK = QueryText(text="SELECT 'ä' AS value FROM records", sha256="ab" * 32)
DROP = QueryText(text="SELECT * FROM records WHERE false", sha256="cd" * 32)
HISTORY = QueryHistory((QueryEntry(0, None, 5), QueryEntry(1042, MASK.sha256, 6)), UUID(int=7))
KEY = b"mm2-query-history-my-orders-12"
VALUE = (f'{{"id":"00000000-0000-0000-0000-000000000007","entries":[[0,null,5],[1042,"{MASK.sha256}",6]]}}').encode()


def test_encoded_records() -> None:
    assert encode_query(MASK) == (
        b"mm2-query-" + MASK.sha256.encode(),
        '{"query":"SELECT \'ä\' AS value FROM records"}'.encode(),
    )
    assert encode_history(ORDERS, HISTORY) == (KEY, VALUE)
    assert encode_history(ORDERS, NO_HISTORY) == (KEY, b'{"id":null,"entries":[]}')


def test_keys() -> None:
    assert is_query_key(KEY)
    assert not is_query_key(b"mm2-skips")
    assert not is_query_key(None)


def test_records_are_read() -> None:
    found = QueryHistories()
    assert found.of(ORDERS) is NO_HISTORY
    assert found.take(KEY, VALUE)
    assert not found.take(KEY, VALUE)
    assert found.take(*encode_query(MASK))
    assert (found.histories, found.texts, found.revision) == ({ORDERS: HISTORY}, {MASK.sha256: MASK}, 2)
    assert found.take(KEY, None)
    assert not found.take(KEY, None)
    assert (found.of(ORDERS), found.revision) == (NO_HISTORY, 3)


def test_fields_of_later_releases_are_ignored() -> None:
    found = QueryHistories()
    found.take(KEY, b'{"id":null,"entries":[[3,null,5,"later"]],"later":1}')
    assert found.of(ORDERS) == QueryHistory((QueryEntry(3, None, 5),))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"mm2-query-history-orders", b"{}", "invalid key"),
        (b"mm2-query-xyz", b"{}", "invalid key"),
        (None, b"{}", "invalid key"),
        (KEY, b"[]", "query history of my-orders-12"),
        (KEY, b"{", "query history"),
        (KEY, b'{"id":"x","entries":[]}', "query history"),
        (KEY, b'{"id":null,"entries":[[1,2,3]]}', "2 is not a string"),
        (KEY, b'{"id":null,"entries":[["1",null,3]]}', "'1' is not an integer"),
        (KEY, b'{"id":null,"entries":[[1]]}', "query history"),
        (encode_query(MASK)[0], b'{"query":1}', "not {query}"),
    ],
)
def test_malformed_records(key: bytes | None, value: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        QueryHistories().take(key, value)


def test_what_is_due() -> None:
    """A text is written once, before the first history that needs it."""
    found = QueryHistories()
    users = TopicPartition("users", 0)
    uses = [
        QueryUse(users, QueryEntry(7, MASK.sha256, 1)),
        QueryUse(ORDERS, QueryEntry(0, MASK.sha256, 1)),
        QueryUse(ORDERS, QueryEntry(9, DROP.sha256, 2)),
    ]
    assert all(map(found.lacks, uses))
    queries = {one.sha256: one for one in (MASK, DROP)}
    due = list(found.due(uses, queries))
    assert [[key for key, _ in records] for records in due] == [
        [encode_query(MASK)[0], encode_query(DROP)[0], KEY],
        [b"mm2-query-history-users-0"],
    ]
    for records in due:
        for record in records:
            assert found.take(*record)
    assert found.of(ORDERS) == QueryHistory((uses[1].entry, uses[2].entry))
    assert not any(map(found.lacks, uses))
    assert list(found.due(uses, queries)) == []
    more = list(found.due([QueryUse(users, QueryEntry(20, DROP.sha256, 3))], queries))
    assert [key for key, _ in more[0]] == [b"mm2-query-history-users-0"]


def test_an_unknown_text_does_not_delay_the_history() -> None:
    due = list(QueryHistories().due([QueryUse(ORDERS, QueryEntry(0, MASK.sha256, 1))], {}))
    assert [[key for key, _ in records] for records in due] == [[KEY]]


def test_reason_why_histories_cannot_be_returned() -> None:
    assert QueriesUnreadableError("no flow", is_unknown=True).is_unknown
