from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mm2.core.lanes.lease import DeadLettersLease, PartitionLease, RecordRouting
from mm2.core.mirror1.user_class import UserClass
from mm2.core.naming.names import Flow, TopicPartition
from mm2.mirror1.stream_leases import COPIED, ROUTED, stream_lease
from tests.unit.config.mirror1.files import PRODUCER, settings

FLOW = Flow("mirror", "0")
STARTS = {TopicPartition("a", 0): 7, TopicPartition("b", 1): None}


def test_batches_are_copied_into_the_same_topic(tmp_path: Path) -> None:
    found = settings(tmp_path)
    lease = stream_lease(found, found.consumers[0], FLOW, STARTS, source_task=COPIED, epoch=3)
    assert (lease.flow, lease.source_task, lease.epoch) == (FLOW, COPIED, 3)
    assert lease.partitions == (
        PartitionLease(topic="a", partition=0, remote_topic="a", start_offset=7),
        PartitionLease(topic="b", partition=1, remote_topic="b", start_offset=None),
    )
    assert (lease.source, lease.target) == (found.consumers[0].client, found.target)
    assert (lease.dead_letters, lease.routing) == (None, None)


def test_records_are_written_one_by_one_and_left_out_into_a_topic_of_the_group(tmp_path: Path) -> None:
    start = ("bootstrap.servers=a:9092\ngroup.id=my group/1\n", PRODUCER)
    handler = UserClass(name="acme_mirror:Handler", arguments=None)
    found = replace(settings(tmp_path, start=start, abort_on_send_failure=False), handler=handler)
    lease = stream_lease(found, found.consumers[0], FLOW, STARTS, source_task=ROUTED, epoch=3)
    assert lease.dead_letters == DeadLettersLease(topic="mm2-dead-letters.my_group_1.internal")
    assert lease.routing == RecordRouting(handler=handler)
