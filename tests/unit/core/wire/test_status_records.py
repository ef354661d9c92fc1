from __future__ import annotations

import pytest

from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow
from mm2.core.wire.formats import FormatError
from mm2.core.wire.status_records import (
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


def test_keys() -> None:
    assert connector_key(TaskKind.SOURCE) == b"status-connector-MirrorSourceConnector"
    assert task_key(str(TaskId(TaskKind.SOURCE, 1))) == b"status-task-MirrorSourceConnector-1"
    assert topic_key("A.orders", TaskKind.SOURCE) == b"status-topic-A.orders:connector-MirrorSourceConnector"


def test_worker_ids() -> None:
    assert worker_id("host", Flow("A", "B"), "node-1") == "host/A->B/node-1"


def test_failure_as_encoded_by_jackson() -> None:
    status = Status(state=ConnectState.FAILED, trace='a "line"\n\tnext\x01', worker_id="A->B", generation=3)
    encoded = encode_status(status)
    assert encoded == (
        b'{"state":"FAILED","trace":"a \\"line\\"\\n\\tnext\\u0001","worker_id":"A->B","generation":3,"version":null}'
    )
    assert decode_status(encoded) == status


def test_records_of_earlier_and_later_versions() -> None:
    value = b'{"new":1,"generation":7,"worker_id":"A->B","trace":null,"state":"RUNNING"}'
    assert decode_status(value) == Status(state=ConnectState.RUNNING, worker_id="A->B", generation=7)


def test_null_value_is_no_status() -> None:
    assert decode_status(None) is None
    assert decode_topic_use(None) is None


@pytest.mark.parametrize("value", [b"", b"[]", b"\xff", b'{"state":"ODD","worker_id":"w","generation":1}'])
def test_invalid_records(value: bytes) -> None:
    with pytest.raises(FormatError, match="read status"):
        decode_status(value)


def test_invalid_topic_keys() -> None:
    with pytest.raises(FormatError, match="no topic in it"):
        decode_topic_use(b'{"topic":{}}')


def test_topic_use_record() -> None:
    use = TopicUse(topic="A.orders", connector="MirrorSourceConnector", task=1, discovered_ms=5)
    assert decode_topic_use(encode_topic_use(use)) == use


def test_every_state_maps_to_a_state_of_java() -> None:
    assert {str(state): str(connect_state(state)) for state in TaskState} == {
        "WAITING": "UNASSIGNED",
        "RUNNING": "RUNNING",
        "PAUSED": "PAUSED",
        "DRAINING": "UNASSIGNED",
        "FAILED": "FAILED",
        "STOPPED": "UNASSIGNED",
    }
