"""Topics that were deleted on the source: which are missing, what is stored, and what is read."""

from __future__ import annotations

import pytest

from mm2.core.topics.deleted_topics import (
    DeletedTopics,
    Deletion,
    due_deletions,
    is_deleted_topic_key,
    missing_topics,
)
from mm2.core.topics.selection import Selection
from mm2.core.wire.formats import FormatError

SEEN = Selection(selected=frozenset({"orders"}), present=frozenset({"orders", "users"}), left=frozenset({"users"}))
KEY = b"mm2-deleted-topic-orders"


def test_missing_topics_were_replicated_and_are_not_shown() -> None:
    found = missing_topics(SEEN, {"old"}, {"gone"}, selected={"hidden"}, present={"old"})
    assert found == {"orders", "users", "gone"}
    assert missing_topics(SEEN, {"hidden"}, (), selected={"hidden", "orders"}, present={"users"}) == frozenset()


def test_the_time_is_known_if_the_leader_had_seen_the_topic_the_round_before() -> None:
    stored = DeletedTopics()
    for key, value in due_deletions({}, {"orders", "old"}, before=SEEN, now_ms=5):
        assert is_deleted_topic_key(key)
        stored.take(key, value)
    assert stored.deletions == {
        "orders": Deletion(noticed_ms=5, since_ms=5),
        "old": Deletion(noticed_ms=5, since_ms=None),
    }
    first_round = Selection(selected=frozenset({"users"}))
    ((_, value),) = due_deletions({}, {"users"}, before=first_round, now_ms=6)
    assert value == b'{"noticed":6,"since":null}'


def test_what_is_stored_keeps_its_time_until_the_topic_exists_again() -> None:
    stored = DeletedTopics({"orders": Deletion(noticed_ms=5, since_ms=5)})
    assert list(due_deletions(stored.deletions, {"orders"}, before=Selection(), now_ms=9)) == []
    assert list(due_deletions(stored.deletions, (), before=Selection(), now_ms=9)) == [(KEY, None)]
    stored.take(KEY, None)
    stored.take(KEY, None)
    assert stored.deletions == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY, b"garbage"),
        (KEY, b'{"noticed":"today","since":null}'),
        (KEY, b'{"noticed":5}'),
        (b"mm2-deleted-topic-\xff", b'{"noticed":6,"since":null}'),
    ],
)
def test_records_that_cannot_be_read(key: bytes, value: bytes) -> None:
    stored = DeletedTopics()
    with pytest.raises(FormatError):
        stored.take(key, value)
    assert stored.deletions == {}


@pytest.mark.parametrize("key", [None, b"mm2-skips"])
def test_other_keys(key: bytes | None) -> None:
    assert not is_deleted_topic_key(key)
