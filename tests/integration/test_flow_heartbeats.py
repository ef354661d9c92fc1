"""Heartbeats: written on the target once per interval, and replicated like data."""

from __future__ import annotations

import itertools
import struct
import time

from tests.integration.shared_node import COPIED, SEEN, Mirror, SharedNode, exists
from tests.lab.history import Record, read_topic
from tests.lab.waiting import wait_until

VERSION = 0


def heartbeats(flow: Mirror, *, remote: bool = False) -> list[Record]:
    """Return this flow's heartbeats on its target, oldest first. ``remote``: those replicated from its source."""
    topic = flow.remote("heartbeats") if remote else "heartbeats"
    records = read_topic(flow.target.bootstrap, topic).get(0, [])
    return records if remote else [one for one in records if one.content[0] == key(flow)]


def key(flow: Mirror) -> bytes:
    source, target = flow.source_alias.encode(), flow.target_alias.encode()
    return struct.pack(f">h{len(source)}sh{len(target)}s", len(source), source, len(target), target)


def timestamp(record: Record) -> int:
    value = record.content[1]
    assert value is not None
    version, written_at = struct.unpack(">hq", value)
    assert version == VERSION
    return int(written_at)


def test_one_heartbeat_per_second_in_javas_format(shared: SharedNode) -> None:
    flow = shared.plain
    before = len(heartbeats(flow))
    wait_until(lambda: len(heartbeats(flow)) >= before + 4, SEEN, "four more heartbeats arrive")
    newest = heartbeats(flow)[-4:]
    times = [timestamp(one) for one in newest]
    assert all(one.content[3] == written_at for one, written_at in zip(newest, times, strict=True))
    assert all(b - a >= 900 for a, b in itertools.pairwise(times)), "never faster than the interval"
    assert times[-1] <= time.time() * 1000


def test_heartbeats_are_replicated_regardless_of_the_filter(shared: SharedNode) -> None:
    """Heartbeats of other flows on the source are replicated, although `topics` does not select them."""
    flow = shared.plain

    def arrived() -> bool:
        return key(shared.back) in {one.content[0] for one in heartbeats(flow, remote=True)}

    wait_until(arrived, COPIED, f"heartbeats of {shared.back.name} arrive as {flow.remote('heartbeats')}")
    assert flow.wait_state("heartbeats", "RUNNING")["remote_topic"] == f"{flow.source_alias}.heartbeats"


def test_replication_of_heartbeats_can_be_disabled(shared: SharedNode) -> None:
    flow = shared.unusual  # heartbeats.replication.enabled=false
    wait_until(lambda: shared.node.flow(flow.name)["state"] == "RUNNING", SEEN, f"{flow.name} runs")
    assert not flow.status("heartbeats")
    assert not exists(flow.target, f"{flow.alias_in_names}_heartbeats")


def test_flow_with_heartbeats_only(shared: SharedNode) -> None:
    flow = shared.beating
    wait_until(lambda: len(heartbeats(flow)) >= 2, SEEN, f"{flow.name} writes heartbeats")
    shown = shared.node.flow(flow.name)
    assert (shown["enabled"], shown["state"], shown["topics"]) == (False, "RUNNING", [])
    assert [task["kind"] for task in shown["tasks"]] == ["heartbeat"]


def test_flow_without_heartbeats(shared: SharedNode) -> None:
    flow = shared.greedy  # emit.heartbeats.enabled=false
    assert shared.node.flow(flow.name)["enabled"]
    assert heartbeats(flow) == []
