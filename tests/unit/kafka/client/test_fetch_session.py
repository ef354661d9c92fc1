"""The client's half of KIP-227."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import aiokafka.protocol.fetch as theirs

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import FetchSettings
from mm2.kafka.client.fetch_session import FetchSession
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.fetch_request import FetchAnswer, FetchFrom, FetchRequest

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)


def sent(session: FetchSession) -> tuple[int, int, dict[int, int], list[int]]:
    """Return session id, epoch, {partition: offset} and forgotten partitions of the next request."""
    request = session.request(FetchSettings(), max_bytes=1_000, max_wait_ms=10).prepare({1: (4, 11)})
    decoded: Any = theirs.FetchRequest_v11.decode(request.encode())
    offsets = {row[0]: row[2] for _, rows in decoded.topics for row in rows}
    forgotten = [number for _, numbers in decoded.forgotten_topics_data for number in numbers]
    return decoded.session_id, decoded.session_epoch, offsets, forgotten


def answer(error: int = 0, session_id: int = 77) -> FetchAnswer:
    return FetchAnswer(0, error, session_id, [])


def established() -> FetchSession:
    session = FetchSession()
    session.want(ONE, FetchFrom(10, 100))
    session.want(TWO, FetchFrom(20, 100))
    assert sent(session) == (0, 0, {1: 10, 2: 20}, [])
    session.answered(answer())
    return session


def test_only_changes_are_named() -> None:
    session = established()
    assert sent(session) == (77, 1, {}, [])
    session.answered(answer())
    session.want(ONE, FetchFrom(15, 100))
    session.want(TWO, FetchFrom(20, 100))  # as before
    assert sent(session) == (77, 2, {1: 15}, [])
    session.answered(answer())
    session.want(TWO, None)
    assert len(session) == 1
    assert sent(session) == (77, 3, {}, [2])


def test_another_leader_epoch_is_a_change() -> None:
    session = established()
    session.want(ONE, FetchFrom(10, 100, leader_epoch=4))
    assert sent(session) == (77, 1, {1: 10}, [])
    session.answered(answer())
    session.want(ONE, FetchFrom(10, 100, leader_epoch=4, last_fetched_epoch=3))
    assert sent(session) == (77, 2, {1: 10}, [])
    session.answered(answer())
    session.want(ONE, FetchFrom(10, 100, leader_epoch=4, last_fetched_epoch=3))
    assert sent(session) == (77, 3, {}, [])


def test_a_partition_that_leaves_and_comes_back_between_two_requests_is_named_again() -> None:
    session = established()
    session.want(ONE, None)
    session.want(ONE, FetchFrom(10, 100))
    assert sent(session) == (77, 1, {1: 10}, [])


def test_a_removed_partition_is_in_the_brokers_session_until_the_next_request() -> None:
    session = established()
    assert not session.still_has(ONE)
    session.want(ONE, None)
    assert session.still_has(ONE)
    session.want(ONE, FetchFrom(10, 100))
    assert not session.still_has(ONE)
    session.want(ONE, None)
    assert sent(session) == (77, 1, {}, [1])
    assert not session.still_has(ONE)


def test_after_a_session_error_the_next_request_is_full() -> None:
    session = established()
    session.want(ONE, FetchFrom(15, 100))
    sent(session)
    session.answered(answer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0))
    assert sent(session) == (0, 0, {1: 15, 2: 20}, [])
    session.answered(answer(0, 78))
    session.answered(answer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 78))
    assert sent(session) == (78, 0, {1: 15, 2: 20}, []), "the old session is closed by naming it"


def test_a_lost_response_ends_the_session() -> None:
    session = established()
    session.want(TWO, None)
    sent(session)
    session.lost()
    assert sent(session) == (77, 0, {1: 10}, [])


def test_a_broker_without_sessions_gets_full_requests_with_partitions_in_turn() -> None:
    session = FetchSession()
    session.want(ONE, FetchFrom(10, 100))
    session.want(TWO, FetchFrom(20, 100))
    sent(session)
    session.answered(answer(0, 0))
    session.want(ONE, FetchFrom(15, 100))
    _, epoch, offsets, _ = sent(session)
    assert epoch == 0
    assert list(offsets.items()) == [(2, 20), (1, 15)], "what had data goes to the end"


def by_id(session: FetchSession) -> tuple[int, int, FetchRequest]:
    """Return session id, epoch, and the next request, which identifies topics by id."""
    request = session.request(FetchSettings(), max_bytes=1_000, max_wait_ms=10)
    prepared = request.prepare({1: (4, 13)})
    assert prepared.API_VERSION == 13
    raw = prepared.encode()
    session_id, epoch = struct.unpack_from(">ii", raw, 17)
    return session_id, epoch, request


def test_topics_are_identified_by_id_when_all_have_one() -> None:
    first, second = UUID(int=1), UUID(int=2)
    session = established()
    session.want(ONE, FetchFrom(10, 100, topic_id=first))
    assert sent(session) == (77, 1, {1: 10}, []), "the other has none yet"
    session.answered(answer())
    session.want(TWO, FetchFrom(20, 100, topic_id=first))
    session_id, epoch, request = by_id(session)
    assert (session_id, epoch) == (77, 0), "a session of names is closed"
    assert request.prepare({1: (4, 13)}).encode().count(first.bytes) == 1
    session.answered(answer(0, 78))
    session.want(ONE, None)
    session.want(ONE, FetchFrom(0, 100, topic_id=second))
    session_id, epoch, request = by_id(session)
    raw = request.prepare({1: (4, 13)}).encode()
    assert (session_id, epoch) == (78, 1)
    assert raw.index(second.bytes) < raw.index(first.bytes), "the new topic is wanted, the old one forgotten"
    session.answered(answer(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 78))
    assert by_id(session)[:2] == (78, 0)
    session.want(TWO, FetchFrom(20, 100))
    assert sent(session) == (78, 0, {1: 0, 2: 20}, []), "names again: one has no id"
