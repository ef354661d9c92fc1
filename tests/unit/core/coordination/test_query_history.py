"""`mm2.core.coordination.query_history`: which query applied from which source offset on."""

from __future__ import annotations

from hashlib import sha256
from itertools import permutations
from uuid import UUID

import pytest

from mm2.core.coordination.query_history import (
    ENTRIES_KEPT,
    NO_HISTORY,
    QueryEntry,
    QueryHistory,
    QueryText,
    QueryUse,
)
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.row_query import RowQuery, RowTransform

ORDERS = TopicPartition("orders", 0)


def use(offset: int, query: str | None, at: int, topic_id: int | None = None) -> QueryUse:
    return QueryUse(ORDERS, QueryEntry(offset, query, at), None if topic_id is None else UUID(int=topic_id))


def history(*uses: QueryUse) -> QueryHistory:
    found = NO_HISTORY
    for one in uses:
        found = found.merged(one)
    return found


def entries(found: QueryHistory) -> list[tuple[int, str | None]]:
    return [(one.offset, one.sha256) for one in found.entries]


def test_text_of_a_query_and_of_a_transform() -> None:
    query = RowQuery(columns={}, condition="a", text="SELECT * FROM records WHERE a", sha256="ab" * 32)
    assert QueryText.of(query) == QueryText(text=query.text, sha256=query.sha256)
    digest = sha256(b"my.module:mask").hexdigest()
    transform = QueryText.of(RowTransform(module="my.module", function="mask"))
    assert transform == QueryText(text="my.module:mask", sha256=digest)


def test_without_a_query_there_is_nothing_to_say() -> None:
    assert NO_HISTORY.says(use(7, None, 1))
    assert not NO_HISTORY.says(use(7, "q1", 1))
    assert NO_HISTORY.last_at_ms == -1


def test_queries_follow_each_other() -> None:
    found = history(use(100, "q1", 1), use(250, "q2", 2), use(400, None, 3))
    assert entries(found) == [(100, "q1"), (250, "q2"), (400, None)]
    assert found.last_at_ms == 3
    assert found.says(use(400, None, 9))
    assert found.says(use(900, None, 9))
    assert not found.says(use(900, "q2", 9))


def test_the_same_query_under_a_later_lease_is_already_said() -> None:
    found = history(use(100, "q1", 1))
    assert found.says(use(300, "q1", 2))
    assert not found.says(use(99, "q1", 2))  # it did not apply to 99
    assert not history(use(100, "q1", 1), use(300, "q2", 2)).says(use(200, "q1", 3))


def test_what_is_copied_again_replaces_what_was_said() -> None:
    """(A)"""
    found = history(use(100, "q1", 1), use(250, "q2", 2), use(400, "q3", 3), use(200, "q4", 4))
    assert entries(found) == [(100, "q1"), (200, "q4")]
    assert entries(found.merged(use(0, None, 5))) == [(0, None)]


@pytest.mark.parametrize("late", [use(150, "q9", 3), use(200, "q9", 3), use(250, "q9", 3)], ids=str)
def test_a_former_owner_that_reports_late(late: QueryUse) -> None:
    """(B) Its entry counts up to where the later owner started."""
    found = history(use(0, "q1", 1), use(200, "q2", 5)).merged(late)
    before = [(150, "q9")] if late.entry.offset < 200 else []
    assert entries(found) == [(0, "q1"), *before, (200, "q2")]


def test_every_order_gives_the_same_history() -> None:
    """(B)"""
    uses = [use(100, "q1", 1), use(50, "q2", 2), use(80, "q3", 3), use(80, "q4", 3), use(300, None, 3)]
    found = {history(*some, *some) for some in permutations(uses)}
    assert found == {history(*uses)}
    assert entries(history(*uses)) == [(50, "q2"), (80, "q4"), (300, None)]


def test_a_repeated_entry_changes_nothing() -> None:
    found = history(use(100, "q1", 1), use(250, "q2", 2))
    assert found.merged(use(100, "q1", 1)) is found
    assert found.merged(use(250, "q2", 2)) is found


def test_a_recreated_topic_begins_again() -> None:
    """(C)"""
    found = history(use(100, "q1", 1, topic_id=1), use(250, "q2", 2, topic_id=1))
    assert not found.says(use(300, "q2", 3, topic_id=2))
    again = found.merged(use(0, "q2", 3, topic_id=2))
    assert (entries(again), again.topic_id) == ([(0, "q2")], UUID(int=2))
    assert again.merged(use(50, "q1", 2, topic_id=1)) is again  # of the deleted topic
    assert again.says(use(10, "q2", 4))
    assert again.says(use(10, "q2", 4, topic_id=2))


def test_an_id_that_becomes_known() -> None:
    found = history(use(0, "q1", 1)).merged(use(9, "q2", 2, topic_id=1))
    assert (entries(found), found.topic_id) == ([(0, "q1"), (9, "q2")], UUID(int=1))
    assert found.merged(use(20, "q3", 3)).topic_id == UUID(int=1)


def test_the_last_entries_are_kept() -> None:
    uses = [use(offset, f"q{offset}", offset) for offset in range(ENTRIES_KEPT + 10)]
    found = history(*uses)
    assert entries(found) == [(one.entry.offset, one.entry.sha256) for one in uses[10:]]
    assert found.merged(uses[3]) is found
