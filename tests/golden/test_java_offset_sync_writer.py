"""Random histories replayed in Java's OffsetSyncWriter record by record; ours, by runs, sends the same offset syncs."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.offset_sync_emission import AckedRun, OffsetSyncEmission
from mm2.core.wire.formats import OffsetSync
from tests.golden.vectors import java_vectors

HISTORIES: list[dict[str, Any]] = java_vectors("offset-sync-writer")


def sent_for(emission: OffsetSyncEmission, event: dict[str, Any]) -> list[OffsetSync]:
    match event:
        case {"acked": [partition, upstream, downstream, count]}:
            run = AckedRun(upstream=upstream, downstream=downstream, count=count)
            return emission.acked(TopicPartition("t", partition), run)
        case {"completed": count}:
            return emission.completed(count)
        case _:
            return emission.commit()


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: f"lag_max={history['lag_max']}")
def test_same_offset_syncs_after_every_event(history: dict[str, Any]) -> None:
    emission = OffsetSyncEmission(lag_max=history["lag_max"])
    for event in history["events"]:
        sent = [
            [sync.topic_partition.partition, sync.upstream_offset, sync.downstream_offset]
            for sync in sent_for(emission, event)
        ]
        assert sent == event["sent"], event
