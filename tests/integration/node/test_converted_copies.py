"""A session of a flow does not start where Java's converter has changed the copies, and starts where it has not."""

from __future__ import annotations

import time
from collections.abc import Callable

import javaproperties
import pytest
from confluent_kafka import Producer

from mm2.config.load import load
from mm2.core.offsets.connect_offsets import SourceKey, encode_key, encode_offset
from mm2.node.engine.lease_service import LeaseService
from mm2.node.flow.flow_session import FlowSession
from mm2.node.flow.retained_state import RetainedFlowState
from mm2.node.identity import NodeIdentity
from mm2.node.source.converted_copies import CopiesConverted
from mm2.node.store.audit_store import AuditQueue
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.settings import one_flow
from tests.unit.node.engine.lane_boards import new_board

Unique = Callable[[str], str]
COUNT = 3
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


def session(source: KafkaCluster, target: KafkaCluster, a: str, topic: str) -> FlowSession:
    properties = one_flow(source, target, aliases=(a, unique_name("B")), topics=topic)
    file = scratch.directory("converted") / "mm2.properties"
    file.write_text(javaproperties.dumps(properties | {"value.converter": CONVERTER}, timestamp=False))
    settings = load(file).settings
    assert settings is not None
    flow = next(one for one in settings.flows if one.enabled)
    identity = NodeIdentity(node_id="n", version="0")
    return FlowSession(
        flow, identity, LeaseService(new_board(1), capacity=1), RetainedFlowState(), AuditQueue(), leaving=False
    )


def write_copies(source: KafkaCluster, target: KafkaCluster, a: str, topic: str, *, changed: bool) -> None:
    """Write records and their copies, as Java does, and the source offset of the last one."""
    source.create_topic(topic)
    target.create_topic(f"{a}.{topic}")
    offsets = target.create_topic(f"mm2-offsets.{a}.internal", config={"cleanup.policy": "compact"})
    now = int(time.time() * 1_000)
    for cluster, name, suffix in ((source, topic, b""), (target, f"{a}.{topic}", b"?" if changed else b"")):
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for number in range(COUNT):
            producer.produce(name, value=b"caf\xc3 %d" % number + suffix, partition=0, timestamp=now + number)
        if cluster is target:
            key = encode_key(SourceKey(cluster=a, topic=topic, partition=0))
            producer.produce(offsets, key=key, value=encode_offset(COUNT - 1), partition=0)
        assert producer.flush(30) == 0


@pytest.mark.parametrize("changed", [True, False])
async def test_a_session_continues_only_copies_that_the_converter_left_as_they_are(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, changed: bool
) -> None:
    a, topic = unique_name("A"), unique("converted")
    write_copies(cluster_a, cluster_b, a, topic, changed=changed)
    one = session(cluster_a, cluster_b, a, topic)
    if not changed:
        async with one.connected():
            return
    with pytest.raises(CopiesConverted, match=f"Java MirrorMaker wrote {a}.{topic}-0 with .*StringConverter"):
        async with one.connected():
            pass
