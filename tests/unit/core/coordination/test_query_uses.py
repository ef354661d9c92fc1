"""`mm2.core.coordination.query_uses`: reports about queries in the status topic."""

from __future__ import annotations

from uuid import UUID

import pytest

from mm2.core.coordination.query_history import QueryEntry, QueryText, QueryUse
from mm2.core.coordination.query_uses import ReportedQueryUses, encode_query_uses, is_query_use_key
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError

MASK = QueryText(text="SELECT 'ä' AS value FROM records", sha256="ab" * 32)
USES = (
    QueryUse(TopicPartition("orders", 0), QueryEntry(1042, MASK.sha256, 5), UUID(int=7)),
    QueryUse(TopicPartition("orders", 1), QueryEntry(0, MASK.sha256, 5), UUID(int=7)),
    QueryUse(TopicPartition("users", 0), QueryEntry(3, MASK.sha256, 6)),
)
VALUE = (
    f'{{"sha256":"{MASK.sha256}","query":"SELECT \'ä\' AS value FROM records",'
    '"partitions":{"orders":[[0,1042,5],[1,0,5]],"users":[[0,3,6]]},'
    '"ids":{"orders":"00000000-0000-0000-0000-000000000007"}}'
).encode()
COPIED = QueryUse(TopicPartition("orders", 0), QueryEntry(2000, None, 9))


def test_encoded_record() -> None:
    assert encode_query_uses(12, MASK, USES) == (b"mm2-query-use-12", VALUE)
    key, value = encode_query_uses(0, None, [COPIED])
    assert value == b'{"sha256":null,"query":null,"partitions":{"orders":[[0,2000,9]]},"ids":{}}'
    assert is_query_use_key(key)
    assert not is_query_use_key(b"mm2-source-task-0")
    assert not is_query_use_key(None)


def test_reports_stay_due_although_their_record_is_replaced() -> None:
    """(A)"""
    reported = ReportedQueryUses()
    reported.take(b"mm2-query-use-12", VALUE)
    reported.take(b"mm2-query-use-12", VALUE)
    reported.take(*encode_query_uses(12, None, [COPIED]))
    assert list(reported.uses) == [*USES, COPIED]
    assert reported.queries == {MASK.sha256: MASK}
    reported.keep(lambda use: use == COPIED)
    assert list(reported.uses) == [COPIED]


def test_fields_of_later_releases_are_ignored() -> None:
    reported = ReportedQueryUses()
    reported.take(
        b"mm2-query-use-0", b'{"sha256":null,"query":null,"partitions":{"orders":[[0,2000,9,1]]},"ids":{},"later":1}'
    )
    assert reported.uses == (COPIED,)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"mm2-query-use-x", VALUE, "invalid key"),
        (None, VALUE, "invalid key"),
        (b"mm2-query-use-0", None, "it is null"),
        (b"mm2-query-use-0", b"[]", "report about queries"),
        (b"mm2-query-use-0", b'{"sha256":"a","query":null,"partitions":{},"ids":{}}', "None is not a string"),
        (b"mm2-query-use-0", b'{"sha256":null,"query":null,"partitions":{},"ids":[]}', "report about queries"),
        (b"mm2-query-use-0", b'{"sha256":null,"query":null,"partitions":{"t":[[0]]},"ids":{}}', "report about"),
    ],
)
def test_malformed_records(key: bytes | None, value: bytes | None, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        ReportedQueryUses().take(key, value)
