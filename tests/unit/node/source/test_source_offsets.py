from __future__ import annotations

from mm2.core.naming.names import Flow, TopicPartition
from mm2.node.source.source_offsets import StoredSourceOffsets
from tests.lab.tasks import unconnected_cluster


def test_records_as_java_writes_them() -> None:
    offsets = StoredSourceOffsets(
        unconnected_cluster(), "mm2-offsets.A.internal", Flow("A", "B"), source_alias="A", partitions=1
    )
    key = b'["MirrorSourceConnector",{"cluster":"A","partition":%d,"topic":"orders"}]'
    positions = {TopicPartition("orders", 0): 40, TopicPartition("orders", 1): 0}
    assert offsets.records(positions) == {0: [(key % 0, b'{"offset":39}'), (key % 1, b'{"offset":-1}')]}
