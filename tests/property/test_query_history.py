"""Histories of queries: whatever the order of the reports, each offset has the query that was granted for it last."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.coordination.query_history import NO_HISTORY, QueryEntry, QueryHistory, QueryUse
from mm2.core.coordination.query_history_records import QueryHistories
from mm2.core.naming.names import TopicPartition

ORDERS = TopicPartition("orders", 0)
OFFSETS = 12
ENTRIES = st.builds(
    QueryEntry, st.integers(0, OFFSETS - 1), st.sampled_from(["a", "b", None]), st.integers(0, 1_000_000)
)
GRANTED = st.lists(ENTRIES, max_size=8, unique_by=lambda one: one.at_ms)


@given(GRANTED, st.randoms(use_true_random=False))
def test_every_offset_has_its_last_query(granted: list[QueryEntry], chance: Random) -> None:
    expected: list[str | None] = [None] * OFFSETS
    for one in sorted(granted, key=lambda one: one.at_ms):
        expected[one.offset :] = [one.sha256] * (OFFSETS - one.offset)
    arrived = [QueryUse(ORDERS, one) for one in granted * 2]  # reports are repeated
    chance.shuffle(arrived)
    history = NO_HISTORY
    for use in arrived:
        history = history.merged(use)
    assert [_effective(history, offset) for offset in range(OFFSETS)] == expected
    assert all(a.offset < b.offset and a.at_ms < b.at_ms for a, b in pairwise(history.entries))
    for offset in range(OFFSETS):
        for query in ("a", "b", None):
            says = history.says(QueryUse(ORDERS, QueryEntry(offset, query, 0)))
            assert says == (set(expected[offset:]) == {query})


@given(st.lists(GRANTED, max_size=4))
def test_leaders_that_follow_each_other_write_the_same_as_one(terms: list[list[QueryEntry]]) -> None:
    alone, stored = QueryHistories(), QueryHistories()
    uses = [[QueryUse(ORDERS, one) for one in some] for some in terms]
    for histories, parts in ((alone, [[one for some in uses for one in some]]), (stored, uses)):
        for part in parts:
            for records in histories.due(part, {}):
                for record in records:
                    assert histories.take(*record)
    assert stored.of(ORDERS) == alone.of(ORDERS)


def _effective(history: QueryHistory, offset: int) -> str | None:
    found = [one.sha256 for one in history.entries if one.offset <= offset]
    return found[-1] if found else None
