from __future__ import annotations

import pytest

from mm2.core.formats import FormatError
from mm2.core.lease import TaskState
from mm2.core.names import Flow
from mm2.core.status_records import (
    ConnectState,
    Status,
    TopicUse,
    connect_state,
    connector_key,
    decode_status,
    decode_topic_use,
    encode_status,
    encode_topic_use,
    task_key,
    topic_key,
    worker_id,
)
from mm2.core.tasks import TaskId, TaskKind


def test_keys() -> None:
    assert connector_key(TaskKind.SOURCE) == b"status-connector-MirrorSourceConnector"
    assert task_key(str(TaskId(TaskKind.SOURCE, 1))) == b"status-task-MirrorSourceConnector-1"
    assert topic_key("A.orders", TaskKind.SOURCE) == b"status-topic-A.orders:connector-MirrorSourceConnector"


def test_who_writes() -> None:
    assert worker_id("host", Flow("A", "B"), "node-1") == "host/A->B/node-1"


def test_a_failure_in_jackson_s_spelling() -> None:
    status = Status(state=ConnectState.FAILED, trace='a "line"\n\tnext\x01', worker_id="A->B", generation=3)
    encoded = encode_status(status)
    assert encoded == (
        b'{"state":"FAILED","trace":"a \\"line\\"\\n\\tnext\\u0001","worker_id":"A->B","generation":3,"version":null}'
    )
    assert decode_status(encoded) == status


def test_records_of_before_4_3_and_of_later_versions_are_read() -> None:
    value = b'{"new":1,"generation":7,"worker_id":"A->B","trace":null,"state":"RUNNING"}'
    assert decode_status(value) == Status(state=ConnectState.RUNNING, worker_id="A->B", generation=7)


def test_null_is_nothing() -> None:
    assert decode_status(None) is None
    assert decode_topic_use(None) is None


@pytest.mark.parametrize("value", [b"", b"[]", b"\xff", b'{"state":"ODD","worker_id":"w","generation":1}'])
def test_what_cannot_be_read(value: bytes) -> None:
    with pytest.raises(FormatError, match="read status"):
        decode_status(value)


def test_what_is_no_topic() -> None:
    with pytest.raises(FormatError, match="it holds no topic"):
        decode_topic_use(b'{"topic":{}}')


def test_a_topic_s_use() -> None:
    use = TopicUse(topic="A.orders", connector="MirrorSourceConnector", task=1, discovered_ms=5)
    assert decode_topic_use(encode_topic_use(use)) == use


def test_every_state_of_ours_has_one_of_java_s() -> None:
    assert {str(state): str(connect_state(state)) for state in TaskState} == {
        "WAITING": "UNASSIGNED",
        "RUNNING": "RUNNING",
        "PAUSED": "PAUSED",
        "DRAINING": "UNASSIGNED",
        "FAILED": "FAILED",
        "STOPPED": "UNASSIGNED",
    }
