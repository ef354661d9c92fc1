"""Two real nodes of one flow: each shows all of it, forwards commands to the leader, and rejects unsigned requests.

They use https as the nodes of deploy/compose do: with the lines of its file, its certificate and its health check.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import httpx
import javaproperties
import pytest

from mm2.cli.errors import USAGE
from mm2.core.coordination.request_signing import RequestLine, request_id
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.node import Node
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.shipped import IN_COMPOSE, compose_file, services
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import GaveUp, wait_until

TOKEN = "open-sesame-open"
ALICE = "token-of-alice-0123456789"
PARTITIONS = 4
RUNS = 180.0  # seconds until a node runs: two Sparks start concurrently
SEEN = 30.0  # seconds until a change is visible on both nodes: three steps of 1 s each, but the cores are shared
COPIED = 60.0  # seconds until a small topic is copied
QUIET = 5.0  # seconds in which records would arrive if they were copied
EQUAL = ("leader", "epoch", "members", "state", "reasons", "paused", "assignment_audit")  # equal on all nodes
GONE = 40.0  # seconds until a killed node has left the group: session.timeout.ms is 6 s here, then a rebalance


class Flow:
    """A flow that two nodes share, with two topics."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster) -> None:
        self.source, self.target = source, target
        self.source_alias, self.target_alias = unique_name("A"), unique_name("B")
        self.name = f"{self.source_alias}->{self.target_alias}"
        self.path = f"{self.source_alias}/{self.target_alias}"
        self.topics = [unique_name(f"{self.source_alias}-{stem}") for stem in ("orders", "users")]
        for topic in self.topics:
            source.create_topic(topic, PARTITIONS)
        properties = one_flow(
            source, target, aliases=(self.source_alias, self.target_alias), topics=f"{self.source_alias}-.*"
        ) | {
            "tasks.max": "4",
            "mm2.lanes": "1",
            "mm2.rest.admin": "true",
            "mm2.rest.admin.token": TOKEN,
            "mm2.audit.file": "audit.log",
            f"{self.target_alias}.session.timeout.ms": "6000",
            f"{self.target_alias}.heartbeat.interval.ms": "1500",
            f"{self.target_alias}->{self.source_alias}.emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",  # the source is shared with flows that write heartbeats there
        }
        self.certificates = scratch.directory("certificates")
        self.ca = self.certificates / "node-ca.pem"
        compose = javaproperties.loads(compose_file(self.certificates))
        self.tokens = self.certificates / "tokens"
        self.tokens.write_text(f"alice operator {hashlib.sha256(ALICE.encode()).hexdigest()}\n")
        properties["mm2.rest.tokens.file"] = str(self.tokens)
        properties |= {key: value for key, value in compose.items() if key.startswith("listeners.https.")}
        self.ports = [reserve_port(), reserve_port()]
        self.nodes = [
            Node(properties | {"listeners": f"https://{HOST}:{port}"}, name=name, trusted=self.ca)
            for name, port in zip(("first", "second"), self.ports, strict=True)
        ]

    def write(self, first: int, count: int = 200) -> None:
        for topic in self.topics:
            write(self.source.bootstrap, topic, plain(count, partitions=PARTITIONS, first=first))

    def wait_copied(self, topic: str) -> None:
        remote = (self.target.bootstrap, f"{self.source_alias}.{topic}")
        wait_until_copied((self.source.bootstrap, topic), remote, COPIED)

    def shown(self, node: Node) -> dict[str, Any]:
        return node.flow(self.name)

    def leader(self) -> tuple[Node, Node]:
        """Return the leader and the other node; waits while the first node shows a rebalance."""
        first, second = self.nodes

        def address() -> str | None:
            shown = self.shown(first)
            by_id = {member["node"]: member["url"] for member in shown.get("members", ())}
            return by_id.get(shown.get("leader"))

        return (first, second) if wait_until(address, SEEN, "the flow has a leader") == first.url else (second, first)

    def wait_shared(self) -> None:
        """Wait until both nodes run tasks, everything runs, and both show that."""

        def shared() -> bool:
            return all(_is_shared(self.shown(node)) for node in self.nodes)

        try:
            wait_until(shared, COPIED, "two nodes share the flow, and both show all of it")
        except GaveUp as problem:
            raise GaveUp(f"{problem}\n{[self.shown(node) for node in self.nodes]}") from None


def _is_shared(flow: dict[str, Any]) -> bool:
    parts = [part for topic in flow.get("topics", ()) for part in topic["partitions"]]
    return (
        flow.get("state") == "RUNNING"
        and len(flow["members"]) == 2
        and {part["node"] for part in parts} == {member["node"] for member in flow["members"]}
        and all(part["position"] is not None for part in parts)
    )


@pytest.fixture(scope="module")
def flow(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Flow]:
    flow = Flow(cluster_a, cluster_b)
    flow.write(0)
    first, second = flow.nodes
    with first, second:
        for node in flow.nodes:
            node.wait_running(RUNS)
        flow.wait_shared()
        yield flow
    for port in flow.ports:
        release_port(port)


def test_both_nodes_show_the_whole_flow(flow: Flow) -> None:
    for topic in flow.topics:
        flow.wait_copied(topic)

    def end() -> bool:
        return all(
            part["position"] == part["end_offset"] and part["lag_records"] == 0
            for node in flow.nodes
            for topic in flow.shown(node)["topics"]
            for part in topic["partitions"]
        )

    wait_until(end, SEEN, "both nodes show every partition caught up")

    def places(shown: dict[str, Any]) -> dict[tuple[str, int], tuple[str, int, int]]:
        return {
            (topic["topic"], part["partition"]): (part["node"], part["source_task"], part["position"])
            for topic in shown["topics"]
            for part in topic["partitions"]
        }

    def equal_status() -> list[dict[str, Any]]:
        """Return the status of both nodes if they agree; they can differ briefly after a rebalance or update."""
        one, other = (flow.shown(node) for node in flow.nodes)
        same = all(one[key] == other[key] for key in EQUAL) and places(one) == places(other)
        return [one, other] if same and one["reasons"] == [] else []

    one, other = wait_until(
        equal_status, SEEN, f"both nodes show the same {', '.join(EQUAL)} and assignments without reasons"
    )
    assert [task["id"] for task in one["tasks"]] == [task["id"] for task in other["tasks"]]
    assert {topic["topic"] for topic in one["topics"]} == set(flow.topics)
    assert len(places(one)) == 2 * PARTITIONS
    assert one["assignment_audit"]["partitions"]["assigned"] == 2 * PARTITIONS

    def counted() -> list[float]:
        name, source = "mm2_flow_partitions", flow.source_alias
        return [node.metric(name, source=source, state="RUNNING") for node in flow.nodes]

    def leading() -> float:
        return sum(node.metric("mm2_node_is_leader", source=flow.source_alias) for node in flow.nodes)

    wait_until(lambda: leading() == 1, SEEN, "one of two nodes reports leadership in its metrics")
    wait_until(
        lambda: sum(found := counted()) == 2 * PARTITIONS and min(found) > 0,
        SEEN,
        "the metrics of each node cover its own partitions",
    )
    wait_until(lambda: all(node.healthy for node in flow.nodes), SEEN, "both nodes are healthy")


def test_topic_is_paused_and_resumed_through_the_follower(flow: Flow) -> None:
    orders, users = flow.topics
    leader, follower = flow.leader()
    flow.wait_copied(orders)
    flow.wait_copied(users)
    words = ("pause", str(follower.file), "--flow", flow.name, "--topic", orders, "--reason", "CHG-1234")
    result = run("mm2", *words, env={"MM2_TOKEN": ALICE})
    assert result.code == 0, result.stderr
    wait_until(lambda: audited(flow), SEEN, "the audit topic has the record")
    (record,) = audited(flow)
    expected = {"what": "pause", "who": "alice", "role": "operator", "reason": "CHG-1234", "on": {"topics": [orders]}}
    assert {key: record[key] for key in expected} == expected
    assert (record["outcome"], record["from"], record["flow"]) == ("done", HOST, flow.name)
    for node in (leader, follower):
        file = node.file.parent / "audit.log"
        lines = [one for one in map(json.loads, file.read_text().splitlines()) if one.get("id") == record["id"]]
        assert [(one["who"], one["outcome"]) for one in lines] == [("alice", "attempted"), ("alice", "done")]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert f'"who":"alice","role":"operator","from":"{HOST}"' in node.process.output()

    def paused() -> bool:
        shown = [flow.shown(node) for node in flow.nodes]
        return all(
            one["paused"] == [orders]
            and one["state"] == "RUNNING"
            and all(topic["state"] == ("PAUSED" if topic["topic"] == orders else "RUNNING") for topic in one["topics"])
            for one in shown
        )

    wait_until(paused, SEEN, "both nodes show only that topic as paused, and the flow as running")
    (since,) = {flow.shown(node)["paused_since"][orders] for node in flow.nodes}
    at = datetime.fromtimestamp(since / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert all(flow.shown(node)["paused_by"] == {orders: {"who": "alice", "reason": "CHG-1234"}} for node in flow.nodes)
    reason = f"{flow.name}: paused by an operator since {at} (alice: CHG-1234): {orders}; mm2 resume ends the pause"

    def up() -> bool:
        return all((found := node.health())["status"] == "UP" and reason in found["reasons"] for node in flow.nodes)

    source, target = flow.name.split("->")
    labels = {"source": source, "target": target, "topic": orders}
    for node in flow.nodes:
        assert node.metric("mm2_flow_paused_since_seconds", **labels) == pytest.approx(since / 1_000)
        ready = node.get("/health/ready")
        assert ready is not None
        assert ready.json() == {"status": "UP", "reasons": []}

    wait_until(up, SEEN, "both nodes are healthy, and say what is paused")

    def logged() -> bool:
        """Return whether one of the nodes has logged the change of state of the topic's partitions."""
        start, end = f"{flow.name}: topic {orders} partition", "PAUSED (was RUNNING for "
        output = "\n".join(node.process.output() for node in flow.nodes)
        return any(start in line and end in line for line in output.splitlines())

    wait_until(logged, SEEN, "the log has the change of state")
    before = _written(flow, orders)
    flow.write(200)
    flow.wait_copied(users)
    with pytest.raises(GaveUp):
        wait_until(lambda: _written(flow, orders) > before, QUIET, "records of the paused topic are copied")
    result = run("mm2", "status", follower.url, env={"SSL_CERT_FILE": str(flow.ca)})
    assert f"paused: {orders}" in result.stdout
    result = run("mm2", "resume", str(follower.file), "--flow", flow.name, "--topic", orders)
    assert result.code == 0, result.stderr
    flow.wait_copied(orders)
    wait_until(lambda: [one["who"] for one in audited(flow)] == ["alice", "admin"], SEEN, "the resume is recorded")


def audited(flow: Flow) -> list[dict[str, Any]]:
    """Return the records of the flow's audit topic."""
    topic = f"mm2-audit.{flow.source_alias}.internal"
    if not flow.target.partition_count(topic):
        return []
    return [json.loads(one.value or b"{}") for one in read_topic(flow.target.bootstrap, topic)[0]]


def test_token_is_withdrawn_while_the_nodes_run(flow: Flow) -> None:
    _, follower = flow.leader()

    def code(token: str) -> int:
        return run("mm2", "refresh", str(follower.file), "--flow", flow.name, env={"MM2_TOKEN": token}).code

    assert code(ALICE) == 0
    flow.tokens.write_text("# nobody\n")
    wait_until(lambda: code(ALICE) == USAGE, SEEN, "the token of alice is rejected")
    assert code(TOKEN) == 0
    assert follower.metric("mm2_rest_failed_logins_total", reason="wrong-token") >= 1


def test_health_check_of_compose(flow: Flow) -> None:
    check = services()["node-1"]["healthcheck"]["test"]
    assert check[:3] == ["CMD", "python", "-c"]
    for node in flow.nodes:
        script = check[3].replace("https://127.0.0.1:8083", node.url).replace(IN_COMPOSE, str(flow.certificates))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=SEEN)
        assert done.returncode == 0, done.stderr
        assert f"https://{HOST}:" in script
        assert all(one["url"].startswith("https://") for one in flow.shown(node)["members"])


def wrongly_signed(node: Node, method: str, path: str, body: bytes = b"") -> dict[str, str]:
    """Return the headers of a request, signed with another key."""
    id = request_id(time.time_ns() // 1_000_000, os.urandom(16))
    return RequestLine(method=method, node_url=node.url, path=path, id=id).sign(os.urandom(32), body, "HmacSHA256")


def test_unsigned_requests_are_rejected(flow: Flow) -> None:
    leader, follower = flow.leader()
    trusted = ssl.create_default_context(cafile=flow.ca)
    for node in (leader, follower):
        with httpx.Client(base_url=node.url, trust_env=False, verify=trusted) as client:
            answer = client.get("/flows", headers={"Host": "evil.example"})
            assert answer.status_code == HTTPStatus.MISDIRECTED_REQUEST, "a page of another site (DNS rebinding)"
            for path in ("status", "groups"):
                answer = client.get(f"/{flow.path}/mm2/{path}")
                assert answer.status_code == HTTPStatus.BAD_REQUEST
                wrong = wrongly_signed(node, "GET", f"/{flow.path}/mm2/{path}")
                answer = client.get(f"/{flow.path}/mm2/{path}", headers=wrong)
                assert answer.status_code == HTTPStatus.FORBIDDEN
                assert set(answer.json()) == {"error_code", "message"}
            body = b'{"command":"pause"}'
            wrong = wrongly_signed(node, "POST", f"/{flow.path}/mm2/commands", body)
            answer = client.post(f"/{flow.path}/mm2/commands", content=body, headers=wrong)
            assert answer.status_code == HTTPStatus.FORBIDDEN
            assert client.post(f"/flows/{flow.path}/pause").status_code == HTTPStatus.UNAUTHORIZED
    result = run(
        "mm2",
        "restart",
        follower.url,
        "MirrorSourceConnector-99",
        "--flow",
        flow.name,
        env={"MM2_REST_ADMIN_TOKEN": TOKEN, "SSL_CERT_FILE": str(flow.ca)},
    )
    assert result.code == 2
    assert "there is no task MirrorSourceConnector-99" in result.stderr
    assert flow.shown(leader)["paused"] == []


@pytest.mark.long  # tests/faults/test_nodes.py kills nodes, too
def test_killed_node_is_removed_from_the_view(flow: Flow) -> None:
    _, follower = flow.leader()
    remaining = next(node for node in flow.nodes if node is not follower)
    follower.kill()

    def reported() -> bool:
        return any("is unknown: " in reason for reason in flow.shown(remaining)["reasons"])

    wait_until(reported, SEEN, "the other node reports that the killed one is unreachable")

    def alone() -> bool:
        shown = flow.shown(remaining)
        parts = [part for topic in shown["topics"] for part in topic["partitions"]]
        return (
            len(shown["members"]) == 1
            and {part["node"] for part in parts} == {shown["leader"]}
            and shown["state"] == "RUNNING"
            and shown["reasons"] == []
        )

    wait_until(alone, GONE, "the other node runs everything and is the only member")
    flow.write(400)
    for topic in flow.topics:
        remote = (flow.target.bootstrap, f"{flow.source_alias}.{topic}")
        wait_until_copied((flow.source.bootstrap, topic), remote, COPIED, repeats_allowed=True)


def _written(flow: Flow, topic: str) -> int:
    return end_offset_sum(flow.target.bootstrap, f"{flow.source_alias}.{topic}")
