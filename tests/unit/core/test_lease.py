from __future__ import annotations

from uuid import UUID

import pytest
from pydantic import TypeAdapter

from mm2.core.client_settings import (
    ClientSettings,
    FetchSettings,
    ProduceSettings,
    SaslMechanism,
    SaslSettings,
    TlsSettings,
)
from mm2.core.exact_offset_records import TopicIds
from mm2.core.lease import (
    ExactOffsetsLease,
    LaneOrders,
    LeaseGrant,
    LeaseRequest,
    OffsetsLease,
    PartitionLease,
    SlotLease,
)
from mm2.core.names import Flow

CLIENT = ClientSettings(
    bootstrap_servers=("127.0.0.1:9092",),
    sasl=SaslSettings(mechanism=SaslMechanism.PLAIN, username="u", password="s3cret"),
    tls=TlsSettings(key_pem="s3cret", key_password="s3cret"),
)
ORDERS = LaneOrders(
    version=1,
    slots=(
        SlotLease(
            flow=Flow("A", "B"),
            slot=0,
            epoch=1,
            source=CLIENT,
            fetch=FetchSettings(),
            target=CLIENT,
            produce=ProduceSettings(),
            offsets=OffsetsLease(client=CLIENT, topic="mm2-offsets.A.internal", partitions=25, flush_interval_ms=5000),
            offset_syncs=None,
            exact_offsets=ExactOffsetsLease(client=CLIENT, topic="mm2-exact-offsets.A.internal", slots=32),
            partitions=(
                PartitionLease(topic="t", partition=0, remote_topic="A.t", start_offset=None),
                PartitionLease(
                    topic="u",
                    partition=1,
                    remote_topic="A.u",
                    start_offset=0,
                    topic_ids=TopicIds(UUID(int=7), None),
                    made_anew=True,
                    last_segment="AAAA",
                ),
            ),
        ),
    ),
)
GRANT = LeaseGrant(session="s3cret", lease_seconds=15, orders=ORDERS)


@pytest.mark.parametrize("value", [GRANT, LeaseRequest(token="s3cret", attempt=1, pid=1)])
def test_secrets_are_not_shown(value: object) -> None:
    assert "s3cret" not in repr(value)


def test_a_lease_travels_as_json_with_its_secrets() -> None:
    adapter = TypeAdapter(LeaseGrant)
    assert adapter.validate_json(adapter.dump_json(GRANT)) == GRANT
