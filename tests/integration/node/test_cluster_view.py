"""Two real nodes of one flow: each shows all of it, takes commands for the leader, and tells strangers nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import httpx
import pytest

from mm2.core.request_signing import sign
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import GaveUp, wait_until

TOKEN = "open-sesame-open"
PARTITIONS = 4
RUNS = 180.0  # seconds until a node runs: two Sparks start at once
SEEN = 30.0  # seconds until what is published, told and asked for shows: a second each, but the cores are shared
COPIED = 60.0  # seconds until a small topic is copied
QUIET = 5.0  # seconds in which records would have arrived, were they copied
ALIKE = ("leader", "epoch", "members", "state", "reasons", "paused", "coverage")  # that all nodes show
GONE = 40.0  # seconds until a killed node is out of the group: session.timeout.ms is 6 s here, then a round


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
            f"{self.target_alias}.session.timeout.ms": "6000",
            f"{self.target_alias}.heartbeat.interval.ms": "1500",
            f"{self.target_alias}->{self.source_alias}.emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",  # the source is shared with flows that write heartbeats there
        }
        self.nodes = [Node(properties, name=name) for name in ("first", "second")]

    def write(self, first: int, count: int = 200) -> None:
        for topic in self.topics:
            write(self.source.bootstrap, topic, plain(count, partitions=PARTITIONS, first=first))

    def wait_copied(self, topic: str) -> None:
        remote = (self.target.bootstrap, f"{self.source_alias}.{topic}")
        wait_until_copied((self.source.bootstrap, topic), remote, COPIED)

    def shown(self, node: Node) -> dict[str, Any]:
        return node.flow(self.name)

    def leader(self) -> tuple[Node, Node]:
        """The leading node, and the other."""
        leads = self.shown(self.nodes[0])["leader"]
        by_id = {member["node"]: member["url"] for member in self.shown(self.nodes[0])["members"]}
        first, second = self.nodes
        return (first, second) if by_id[leads] == first.url else (second, first)

    def wait_shared(self) -> None:
        """Until both nodes run something, everything runs, and both say so."""

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
        and all(part["position"] >= 0 for part in parts)
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
            (topic["topic"], part["partition"]): (part["node"], part["slot"], part["position"])
            for topic in shown["topics"]
            for part in topic["partitions"]
        }

    def alike() -> list[dict[str, Any]]:
        """What both show, once no round and no second lies between their pictures."""
        one, other = (flow.shown(node) for node in flow.nodes)
        same = all(one[key] == other[key] for key in ALIKE) and places(one) == places(other)
        return [one, other] if same and one["reasons"] == [] else []

    one, other = wait_until(
        alike, SEEN, f"both nodes show the same {', '.join(ALIKE)} and places, and nothing is wrong"
    )
    assert [task["id"] for task in one["tasks"]] == [task["id"] for task in other["tasks"]]
    assert {topic["topic"] for topic in one["topics"]} == set(flow.topics)
    assert len(places(one)) == 2 * PARTITIONS
    assert one["coverage"]["partitions"]["covered"] == 2 * PARTITIONS

    def counted() -> list[float]:
        name, source = "mm2_flow_partitions", flow.source_alias
        return [node.metric(name, source=source, state="RUNNING") for node in flow.nodes]

    def leading() -> float:
        return sum(node.metric("mm2_node_is_leader", source=flow.source_alias) for node in flow.nodes)

    wait_until(lambda: leading() == 1, SEEN, "one of two exposes that it leads")
    wait_until(
        lambda: sum(found := counted()) == 2 * PARTITIONS and min(found) > 0, SEEN, "each exposes its own partitions"
    )
    wait_until(lambda: all(node.healthy for node in flow.nodes), SEEN, "both nodes are healthy")


def test_a_topic_is_paused_and_resumed_by_the_follower(flow: Flow) -> None:
    orders, users = flow.topics
    _, follower = flow.leader()
    flow.wait_copied(orders)
    flow.wait_copied(users)
    result = run("mm2", "pause", str(follower.file), "--flow", flow.name, "--topic", orders)
    assert result.code == 0, result.stderr

    def paused() -> bool:
        shown = [flow.shown(node) for node in flow.nodes]
        return all(
            one["paused"] == [orders]
            and all(topic["state"] == ("PAUSED" if topic["topic"] == orders else "RUNNING") for topic in one["topics"])
            for one in shown
        )

    wait_until(paused, SEEN, "both nodes show the topic paused, and only that")
    before = _written(flow, orders)
    flow.write(200)
    flow.wait_copied(users)
    with pytest.raises(GaveUp):
        wait_until(lambda: _written(flow, orders) > before, QUIET, "something of the paused topic is copied")
    result = run("mm2", "status", follower.url)
    assert f"paused: {orders}" in result.stdout
    result = run("mm2", "resume", str(follower.file), "--flow", flow.name, "--topic", orders)
    assert result.code == 0, result.stderr
    flow.wait_copied(orders)


def test_strangers_are_told_nothing(flow: Flow) -> None:
    leader, follower = flow.leader()
    for node in (leader, follower):
        with httpx.Client(base_url=node.url, trust_env=False) as client:
            for path in ("status", "groups"):
                answer = client.get(f"/{flow.path}/mm2/{path}")
                assert answer.status_code == HTTPStatus.BAD_REQUEST
                wrong = sign(os.urandom(32), b"", "HmacSHA256")
                answer = client.get(f"/{flow.path}/mm2/{path}", headers=wrong)
                assert answer.status_code == HTTPStatus.FORBIDDEN
                assert set(answer.json()) == {"error_code", "message"}
            body = b'{"command":"pause"}'
            wrong = sign(os.urandom(32), body, "HmacSHA256")
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
        env={"MM2_REST_ADMIN_TOKEN": TOKEN},
    )
    assert result.code == 2
    assert "there is no task MirrorSourceConnector-99" in result.stderr
    assert flow.shown(leader)["paused"] == []


def test_a_killed_node_is_gone_from_the_view(flow: Flow) -> None:
    _, follower = flow.leader()
    left = next(node for node in flow.nodes if node is not follower)
    follower.kill()

    def said() -> bool:
        return any("cannot be seen from here" in reason for reason in flow.shown(left)["reasons"])

    wait_until(said, SEEN, "the other node says that it cannot be asked")

    def alone() -> bool:
        shown = flow.shown(left)
        parts = [part for topic in shown["topics"] for part in topic["partitions"]]
        return (
            len(shown["members"]) == 1
            and {part["node"] for part in parts} == {shown["leader"]}
            and shown["state"] == "RUNNING"
            and shown["reasons"] == []
        )

    wait_until(alone, GONE, "the other node runs everything, and shows nobody else")
    flow.write(400)
    for topic in flow.topics:
        remote = (flow.target.bootstrap, f"{flow.source_alias}.{topic}")
        wait_until_copied((flow.source.bootstrap, topic), remote, COPIED, repeats_allowed=True)


def _written(flow: Flow, topic: str) -> int:
    return end_offset_sum(flow.target.bootstrap, f"{flow.source_alias}.{topic}")
