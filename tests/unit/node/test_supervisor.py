"""What a node starts and stops when its file changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mm2.config.reload.changes import FileDiff
from mm2.config.settings import NodeSettings
from mm2.core.lanes.engine_orders import EngineReport, EngineRole
from mm2.core.lanes.lease import LeaseEndpoint
from mm2.core.naming.names import Flow
from mm2.node.engine.engine_process import EngineProcess
from mm2.node.flow.flow_supervisor import FlowSupervisor
from mm2.node.identity import NodeIdentity
from mm2.node.status.status_model import FileStatus, FlowStatus, NodeStatus
from mm2.node.supervisor import Node
from tests.unit.config.files import settings

OTHERS = "clusters = A, B, C\nC.bootstrap.servers = c:9092\n"
QUERY = "A->C.mm2.sql.mask.topics = t\nA->C.mm2.sql.mask.query = SELECT upper(key) AS value FROM records\n"
PUBLISHED_S = 10.0
CLUSTER = (
    "spark.master = spark://127.0.0.1:7077\nspark.network.crypto.enabled = true\nspark.authenticate = true\n"
    "spark.authenticate.secret = sesame\nlisteners = http://127.0.0.1:0\n"
)


@asynccontextmanager
async def running(node: Node) -> AsyncIterator[Node]:
    await node.start("http://127.0.0.1:1", LeaseEndpoint(url="http://127.0.0.1:1"))
    try:
        await asyncio.sleep(0)
        yield node
    finally:
        await node.close()


def file_diff(before: NodeSettings, now: NodeSettings) -> FileDiff:
    old, new = {flow.flow for flow in before.flows}, {flow.flow for flow in now.flows}
    return FileDiff(
        file=str(now.path),
        appeared=tuple(new - old),
        vanished=tuple(old - new),
        changed=(),
        node=(),
        idle=(),
    )


seen: list[str] = []


class UnconnectedFlow(FlowSupervisor):
    """A flow without clusters."""

    async def run(self) -> None:
        seen.append(f"{self.settings.flow} runs")
        await asyncio.Event().wait()

    def status(self) -> FlowStatus:
        return replace(super().status(), is_leader=True)

    async def stop(self, reason: str) -> None:
        seen.append(f"{self.settings.flow} stops: {reason}")


class EngineWithoutSpark(EngineProcess):
    async def run(self) -> None:
        seen.append(f"{self.role} runs")
        self.last_error = None
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(f"{self.role} ends")

    async def restart(self, spark: Mapping[str, str]) -> None:
        await asyncio.sleep(0)  # it takes seconds, in which other tasks run
        seen.append(f"engine restarts with {spark['spark.cores.max']} cores")


@pytest.fixture
def events() -> list[str]:
    """What the node does, without clusters and without Spark."""
    seen.clear()
    return seen


def node_of(before: NodeSettings) -> Node:
    file = FileStatus(path=str(before.path), digest="", loaded_at=0.0)
    identity = NodeIdentity(node_id="n1", version="1")
    return Node(before, identity, file, flow_supervisor=UnconnectedFlow, engine_process=EngineWithoutSpark)


async def test_on_a_cluster_new_flows_wait_until_the_engine_has_restarted(tmp_path: Path, events: list[str]) -> None:
    on_cluster = f"mm2.lanes = 2\nemit.heartbeats.enabled = false\n{CLUSTER}"
    before = settings(tmp_path, on_cluster)
    flows = f"{OTHERS}A->C.enabled = true\n{QUERY}"
    now = settings(tmp_path, f"{on_cluster}{flows}")
    async with running(node_of(before)) as node:
        assert set(events) >= {"A->B runs", f"{EngineRole.MAIN} runs"}
        events.clear()
        await node.reload(now, file_diff(before, now))
        await asyncio.sleep(0)
        restart = events.index("engine restarts with 4 cores")
        assert "A->B stops: more queries need more SQL lanes" in events[:restart]
        assert {"A->B runs", "A->C runs"} <= set(events[restart:])
        assert not any(event.endswith("runs") for event in events[:restart])
        assert [str(flow.settings.flow) for flow in node.flows.supervisors].count("A->C") == 1
        assert Flow("A", "C") in node.lease_service.board.flows


async def test_new_flows_without_a_query_start_beside_the_others(tmp_path: Path, events: list[str]) -> None:
    before = settings(tmp_path, "mm2.lanes = 2\nemit.heartbeats.enabled = false\n")
    now = settings(tmp_path, f"mm2.lanes = 2\nemit.heartbeats.enabled = false\n{OTHERS}A->C.enabled = true\n")
    async with running(node_of(before)) as node:
        events.clear()
        await node.reload(now, file_diff(before, now))
        await asyncio.sleep(0)
        assert "A->C runs" in events
        assert not any(event.startswith(("A->B", "engine", "the Spark engine")) for event in events)


async def test_the_first_query_starts_an_engine_and_the_last_one_stops_it(tmp_path: Path, events: list[str]) -> None:
    """The engine of other flows, and these flows, are not touched."""
    common = "mm2.lanes = 2\nemit.heartbeats.enabled = false\n"
    plain = settings(tmp_path, common)
    queries = settings(tmp_path, f"{common}{OTHERS}A->C.enabled = true\n{QUERY}")
    async with running(node_of(plain)) as node:
        board = node.lease_service.board
        for first, now, expected in (
            (plain, queries, ["the Spark engine for queries runs", "A->C runs"]),
            (queries, plain, ["A->C stops: removed from the configuration file", "the Spark engine for queries ends"]),
        ):
            events.clear()
            await node.reload(now, file_diff(first, now))
            await asyncio.sleep(0)
            assert sorted(events) == sorted(expected)
            assert events[-1] == expected[-1] or now is queries
            board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None), 0.0, EngineRole.QUERIES)


async def test_a_flow_without_a_query_does_not_wait_for_the_engine_for_queries(
    tmp_path: Path, events: list[str]
) -> None:
    flows = f"emit.heartbeats.enabled = false\n{OTHERS}A->C.enabled = true\n{QUERY}"
    async with running(node_of(settings(tmp_path, flows))) as node:
        board = node.lease_service.board

        def waiting(status: NodeStatus) -> dict[str, list[str]]:
            found = {str(flow.flow): [one for one in flow.reasons if "engine" in one] for flow in status.flows}
            return {flow: reasons for flow, reasons in found.items() if reasons}

        main, queries = (f"{engine} is starting" for engine in EngineRole)
        both = {"A->B": [main], "A->C": [main, queries]}
        assert await node.until(lambda status: waiting(status) == both, PUBLISHED_S)
        board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None), 0.0)
        assert await node.until(lambda status: waiting(status) == {"A->C": [queries]}, PUBLISHED_S)
        board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None), 0.0, EngineRole.QUERIES)
        assert await node.until(lambda status: waiting(status) == {}, PUBLISHED_S)
