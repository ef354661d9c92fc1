from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

from mm2.core.access.audit import AuditEntry, AuditOutcome
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.store.audit_store import AuditQueue, AuditStore
from tests.lab.tasks import unconnected_cluster
from tests.unit.config import files

ENTRY = AuditEntry(time_ms=0, node="n", what="pause", outcome=AuditOutcome.DONE, id="0123456789abcdef", flow="A->B")
SIZE = len(ENTRY.to_json())
ADMIN = "listeners = http://127.0.0.1:8083\nmm2.rest.admin = true\nmm2.rest.admin.token = open-sesame-open\n"


async def test_records_stay_until_they_are_stored() -> None:
    queue = AuditQueue()
    waiting = asyncio.create_task(queue.first())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add(ENTRY)
    first = await waiting
    assert (first[0], json.loads(first[1])["what"]) == (b"0123456789abcdef", "pause")
    assert await queue.first() is first
    queue.remove(first)
    assert len(queue) == 0


async def test_the_oldest_records_of_a_full_queue_are_dropped() -> None:
    queue = AuditQueue(2 * SIZE)
    queue.add(ENTRY)
    written = await queue.first()
    for id in ("1" * 16, "2" * 16, "3" * 16):
        queue.add(replace(ENTRY, id=id))
    assert (len(queue), queue.dropped) == (2, 2)
    queue.remove(written)  # it was dropped while it was written
    assert (await queue.first())[0] == b"2" * 16


async def test_missing_records_are_a_reason(tmp_path: Path) -> None:
    settings, cluster, queue = files.flow(tmp_path, ADMIN), unconnected_cluster(), AuditQueue(SIZE)
    store = AuditStore(settings, cluster, ControlProducer(cluster), queue)
    assert store.reasons == []
    for _ in range(3):
        queue.add(ENTRY)
    assert store.reasons == [
        "2 audit records were dropped, since they could not be written to mm2-audit.A.internal for long; they are in"
        " the logs of the nodes"
    ]


async def test_a_flow_without_commands_has_no_audit_topic(tmp_path: Path) -> None:
    for settings in (files.flow(tmp_path), replace(files.flow(tmp_path, ADMIN), enabled=False)):
        cluster = unconnected_cluster()
        store = AuditStore(settings, cluster, ControlProducer(cluster), AuditQueue())
        async with asyncio.timeout(5):
            await store.follow()
