"""Random histories that Java's OffsetSyncWriter went through, record by record: ours sends the same syncs by runs."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.formats import OffsetSync
from mm2.core.names import TopicPartition
from mm2.core.offset_sync_emission import AckedRun, OffsetSyncEmission
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
def test_same_syncs_after_every_event(history: dict[str, Any]) -> None:
    emission = OffsetSyncEmission(lag_max=history["lag_max"])
    for event in history["events"]:
        sent = [
            [sync.topic_partition.partition, sync.upstream_offset, sync.downstream_offset]
            for sync in sent_for(emission, event)
        ]
        assert sent == event["sent"], event
