"""What a node tells of its source while nothing copies: paused by an operator, without a target, without a source."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.fixtures import StartCluster
from tests.lab.freezing import frozen
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

RETENTION_MS = 3_600_000
LOST = 60.0  # seconds until a node without its target has lost its membership, on a busy machine


@pytest.mark.timeout(300)
def test_lag_is_measured_while_nothing_copies(breakable: KafkaCluster, start_cluster: StartCluster) -> None:
    source, target = breakable, start_cluster("target")
    name = source.create_topic("observed", 2, config={"retention.ms": str(RETENTION_MS)})
    write(source.bootstrap, name, plain(20, partitions=2))
    properties = one_flow(source, target, topics=name) | {
        "heartbeats.replication.enabled": "false",
        "mm2.rest.admin": "true",
        "mm2.rest.admin.token": "token-of-this-test",
        "B.offset.flush.interval.ms": "1000",
    }
    with Node(properties, name="observed-source") as node:

        def shows(records: int, *, of: int, state: str, lags: str = "lag_records") -> Any:
            """Return the topic when each of its partitions has this state, and so many records are left to copy."""

            def look() -> dict[str, Any] | None:
                topic = node.topic("A->B", name)
                found = topic.get("partitions", ())
                if [one["state"] for one in found] != [state] * of:
                    return None
                return topic if [one[lags] for one in found] == [records // of] * of else None

            return wait_until(look, LOST, f"{records} records are left to copy, in {of} partitions that are {state}")

        node.wait_running()
        shows(0, of=2, state="RUNNING")
        assert node.metric("mm2_cluster_reachable", cluster="A") == 1
        assert node.metric("mm2_cluster_reachable", cluster="B") == 1

        assert run("mm2", "pause", str(node.file), "--flow", "A->B", "--topic", name).code == 0
        shows(0, of=2, state="PAUSED")
        written = time.time()
        write(source.bootstrap, name, plain(10, partitions=2, first=20))
        shows(10, of=2, state="PAUSED")
        paused = wait_until(
            lambda: node.topic("A->B", name),
            SEEN,
            "how long the source keeps what is not copied",
            accept=lambda topic: topic["retention_margin_seconds"] is not None,
        )
        assert [one["position"] for one in paused["partitions"]] == [10, 10]
        assert paused["retention_margin_records"] == 10
        assert abs(paused["retention_margin_seconds"] - (written + RETENTION_MS / 1_000 - time.time())) < 60
        assert 0 < paused["partitions"][0]["lag_seconds"] < time.time() - written + 5
        assert node.metric("mm2_source_lag_records", topic=f"A.{name}", partition="0") == 5
        assert node.metric("mm2_flow_unreplicated_records", source="A") == 10
        assert "if A died now: 10 records, " in run("mm2", "status", str(node.file)).stdout

        assert run("mm2", "resume", str(node.file), "--flow", "A->B", "--topic", name).code == 0
        shows(0, of=2, state="RUNNING")
        target.broker(1).kill()
        shows(0, of=2, state="WAITING")
        write(source.bootstrap, name, plain(8, partitions=2, first=30))
        shows(8, of=2, state="WAITING")
        assert node.metric("mm2_cluster_reachable", cluster="B") == 0
        shown = run("mm2", "status", str(node.file)).stdout
        assert "! B has not answered since 20" in shown
        assert "if A died now: 8 records, " in shown
        lag = json.loads(run("mm2", "lag", str(node.file), "--json").stdout)["flows"][0]
        assert (lag["unknown_partitions"], lag["lag_records"]) == (0, 8)
        with frozen(source.broker(1).process):
            shows(8, of=2, state="WAITING", lags="last_lag_records")
            wait_until(lambda: node.metric("mm2_cluster_reachable", cluster="A") == 0, SEEN, "A is not reachable")
            assert node.metric("mm2_source_end_offset_age_seconds", partition="0") > 9
            assert "if A died now: unknown what is not on B; last known: 8 records at 20" in (
                run("mm2", "status", str(node.file)).stdout
            )
        shows(8, of=2, state="WAITING")
        target.broker(1).restart()
        shows(0, of=2, state="RUNNING")
        wait_until(lambda: node.metric("mm2_cluster_reachable", cluster="B") == 1, COPIED, "B is reachable again")
