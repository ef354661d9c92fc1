"""Requests of group members: versions and client IDs. (Their bytes: tests/golden.)"""

from __future__ import annotations

from typing import Any

import pytest

from mm2.kafka.errors import NotSupported
from mm2.kafka.protocol.membership_requests import Generation, HeartbeatRequest, JoinGroupRequest

HEARTBEAT, JOIN_GROUP = 12, 11


def join(**changed: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "client_id": "copier-0",
        "protocol_type": "consumer",
        "session_timeout_ms": 1,
        "rebalance_timeout_ms": 1,
        "member_id": "",
        "instance_id": None,
        "protocols": [("range", b"")],
    }
    return JoinGroupRequest("g", **(fields | changed))


def heartbeat(*, instance_id: str | None) -> HeartbeatRequest:
    return HeartbeatRequest(Generation(group_id="g", generation=1, member_id="m", instance_id=instance_id))


def test_a_static_member_needs_a_broker_that_knows_it() -> None:
    with pytest.raises(NotSupported, match=r"JoinGroup versions 0 to 4, .* needs 5 to 9: .* older than Kafka 2\.3"):
        join(instance_id="one").prepare({JOIN_GROUP: (0, 4)})
    static = heartbeat(instance_id="one")
    with pytest.raises(NotSupported, match=r"older than Kafka 2\.3"):
        static.prepare({HEARTBEAT: (0, 2)})


def test_dynamic_members_work_with_older_brokers() -> None:
    assert join().prepare({JOIN_GROUP: (0, 2)}).API_VERSION == 2
    assert heartbeat(instance_id=None).prepare({HEARTBEAT: (0, 1)})


def test_a_member_joins_with_its_own_client_id() -> None:
    header = join().prepare({JOIN_GROUP: (0, 9)}).build_request_header(1, "of the connection").encode()
    assert b"copier-0" in header
    assert b"connection" not in header
