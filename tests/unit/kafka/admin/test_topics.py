"""The splitting of requests that create topics."""

from __future__ import annotations

from mm2.kafka.admin.topics import NewTopic, _requests


def sizes(*partitions: int) -> list[list[int]]:
    """Return the partition counts of each request, for topics with these numbers of partitions."""
    topics = [NewTopic(name=f"t{at}", partitions=count, replication_factor=1) for at, count in enumerate(partitions)]
    chunks = list(_requests(topics))
    assert [topic for chunk in chunks for topic in chunk] == topics
    return [[topic.partitions for topic in chunk] for chunk in chunks]


def test_a_request_has_a_hundred_topics_at_most() -> None:
    assert [len(one) for one in sizes(*[1] * 250)] == [100, 100, 50]
    assert sizes() == []


def test_a_request_has_five_thousand_partitions_at_most() -> None:
    assert sizes(3_000, 2_000, 1, 4_999, 1) == [[3_000, 2_000], [1, 4_999], [1]]


def test_a_topic_with_more_goes_alone() -> None:
    assert sizes(1, 9_000, 1) == [[1], [9_000], [1]]
