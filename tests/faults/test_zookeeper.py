"""Nodes that elect through ZooKeeper: outages under load, dead and hung leaders, and contradicting files."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mm2.core.settings.zookeeper import SESSION_TIMEOUT_MS
from tests.lab import freezing
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import require_within, wait_until
from tests.lab.zookeeper import ZooKeeperServer

OUTAGE = 10.0  # seconds without ZooKeeper; its session timeout is 20 s
LONGEST_PAUSE = (
    5.0  # seconds without a new record on the target: allows for pauses of a busy machine, not for a 10 s outage
)
SESSION = 10.0  # session timeout in seconds of the Kafka group that nodes hold; ZooKeeper's is 20 s
TAKEN_OVER = 4.0  # seconds after session expiry: the takeover limit for a killed node
NOISE = 4.0  # seconds that busy cores can add
COPIED = 90.0
REPORTED = 60.0  # seconds until a node reports something, while its Spark starts on the same cores
PARTITIONS = 2
PER_SECOND = 2_000
WELL = {"status": "UP", "reasons": []}


@dataclass(frozen=True, slots=True)
class Lab:
    """Two shared clusters with aliases, topics and ZooKeeper roots unique to this test run."""

    source: KafkaCluster
    target: KafkaCluster
    aliases: tuple[str, str]

    @property
    def flow(self) -> str:
        return "->".join(self.aliases)

    def properties(self, server: ZooKeeperServer, **own: str) -> dict[str, str]:
        """Return a file's properties. ``own``: keys without the prefix ``mm2.zookeeper.``, with _ instead of dots."""
        own_keys = {f"mm2.zookeeper.{name.replace('_', '.')}": text for name, text in own.items()}
        return self.without_zookeeper() | {
            "mm2.election": "zookeeper",
            "mm2.zookeeper.connect": f"{server.address}/{self.aliases[0]}/root",
            **own_keys,
        }

    def without_zookeeper(self) -> dict[str, str]:
        flow = one_flow(self.source, self.target, aliases=self.aliases, topics=f"{self.aliases[0]}-.*")
        return flow | {"mm2.lanes": "1"}

    def topic(self, node: Node) -> str:
        """Create a source topic and wait until ``node`` copies it."""
        topic = self.source.create_topic(unique_name(self.aliases[0]), PARTITIONS)
        wait_until(lambda: node.topic(self.flow, topic).get("state") == "RUNNING", 60, f"{topic} is being copied")
        return topic

    def load(self, topic: str) -> Load:
        return Load(self.source, topic, partitions=PARTITIONS, per_second=PER_SECOND)

    def remote(self, topic: str) -> tuple[str, str]:
        return self.target.bootstrap, f"{self.aliases[0]}.{topic}"

    def verify(self, topic: str, *, repeats_allowed: bool = False) -> None:
        source = (self.source.bootstrap, topic)
        wait_until_copied(source, self.remote(topic), COPIED, repeats_allowed=repeats_allowed)


@pytest.fixture(scope="module")
def lab(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Lab:
    return Lab(cluster_a, cluster_b, (unique_name("A"), unique_name("B")))


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture(scope="module")
def node(lab: Lab, zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with a digest identity, started while ZooKeeper is down."""
    secrets = Path(tmp_path_factory.mktemp("secrets")) / "zookeeper.properties"
    secrets.write_text("password = digest-secret\n")
    properties = lab.properties(zookeeper, auth_scheme="digest", auth_username="mm2") | {
        "mm2.zookeeper.auth.password": f"${{file:{secrets}:password}}",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    zookeeper.stop()
    with Node(properties) as node:
        try:
            reason = wait_for_reason(node, f"election /{lab.aliases[0]}/root/mm2/{lab.flow} on ZooKeeper")
            assert f"{zookeeper.address}: no contact" in reason
            assert "and mm2.zookeeper.connect" in reason
        finally:
            zookeeper.start()
        node.wait_running()
        yield node


def wait_for_reason(node: Node, words: str) -> str:
    """Wait for a reason in /health that contains ``words``, and return it."""
    node.wait_answering()

    def found() -> list[str]:
        return [reason for reason in node.health().get("reasons", ()) if words in reason]

    return wait_until(found, REPORTED, f"/health of {node.name} contains: {words}")[0]


def freeze(server: ZooKeeperServer) -> Callable[[], object]:
    """Suspend the server, as when a machine hangs. Returns the call that resumes it."""
    freezing.freeze(server.process)
    return lambda: freezing.thaw(server.process)


def stop(server: ZooKeeperServer) -> Callable[[], object]:
    server.stop()
    return server.start


@pytest.mark.parametrize("away", [freeze, pytest.param(stop, marks=pytest.mark.long)])
def test_ten_second_zookeeper_outage_has_no_effect(
    lab: Lab, zookeeper: ZooKeeperServer, node: Node, away: Callable[[ZooKeeperServer], Callable[[], object]]
) -> None:
    assert SESSION_TIMEOUT_MS > OUTAGE * 1000
    node.wait_running()
    topic = lab.topic(node)
    before = node.flow(lab.flow)
    history: list[tuple[float, int]] = []
    with lab.load(topic) as load:
        load.wait_for_more(PER_SECOND)
        came_back = away(zookeeper)
        try:
            record(history, lab.remote(topic), OUTAGE)
        finally:
            came_back()
        record(history, lab.remote(topic), LONGEST_PAUSE)
        load.wait_for_more(PER_SECOND)
        load.stop()
    lab.verify(topic)
    require_within(longest_pause(history), LONGEST_PAUSE, f"records keep arriving: {history}")
    after = node.flow(lab.flow)
    assert (after["leader"], after["epoch"]) == (before["leader"], before["epoch"])
    assert "lost leadership" not in node.process.output()
    wait_until(lambda: node.health() == WELL, 30, "the node reports no problem")


def record(history: list[tuple[float, int]], remote: tuple[str, str], seconds: float) -> None:
    """Append (time, number of records in the remote topic) to ``history`` for this many seconds."""
    end = time.monotonic() + seconds

    def passed() -> bool:
        history.append((time.monotonic(), end_offset_sum(*remote)))
        return time.monotonic() >= end

    wait_until(passed, seconds + 30, "the time has passed")


def longest_pause(history: list[tuple[float, int]]) -> float:
    """Return the longest time without a new record, in seconds."""
    grown = [history[0][0]]
    grown += [when for (_, before), (when, now) in itertools.pairwise(history) if now > before]
    grown.append(history[-1][0])
    return max(later - earlier for earlier, later in itertools.pairwise(grown))


@pytest.mark.long  # tests/integration/election/test_holding.py: test_node_with_a_different_election_is_rejected
def test_node_that_elects_through_the_group_is_rejected(lab: Lab, zookeeper: ZooKeeperServer, node: Node) -> None:
    node.wait_running()
    epoch = node.flow(lab.flow)["epoch"]
    with Node(lab.without_zookeeper(), name="contradicting") as other:
        reason = wait_for_reason(other, "nodes with mm2.election = zookeeper (")
        assert f"{zookeeper.address}/{lab.aliases[0]}/root/mm2/" in reason
        assert "but this node is configured differently" in reason
        assert other.stop() == 0
    assert node.flow(lab.flow)["epoch"] == epoch
    wait_until(lambda: node.health() == WELL, 30, "the node reports no problem")


@pytest.mark.long  # tests/integration/election logs in with SASL
def test_node_with_sasl_identity_copies(lab: Lab) -> None:
    one = Lab(lab.source, lab.target, (unique_name("A"), unique_name("B")))
    with ZooKeeperServer("guarded", users={"mm2": "sasl-secret"}) as server:
        wrong = one.properties(server, auth_scheme="sasl", auth_username="mm2", auth_password="a guess")
        with Node(wrong, name="wrong") as node:
            wait_for_reason(node, "rejected the user or password")
            assert node.stop() == 0
        right = one.properties(server, auth_scheme="sasl", auth_username="mm2", auth_password="sasl-secret")
        with Node(right) as node:
            node.wait_running()
            topic = one.topic(node)
            with one.load(topic) as load:
                load.wait_for_more(PER_SECOND)
                load.stop()
            one.verify(topic)
            assert "sasl-secret" not in node.process.output()
            assert node.stop() == 0


def kill(leader: Node) -> None:
    leader.kill()


def pause(leader: Node) -> None:
    freezing.freeze(leader.process)


# tests/integration/election: test_killed_leader_is_replaced_after_session_timeout, and test_restarted_node.py
@pytest.mark.long
@pytest.mark.parametrize("fault", [kill, pause])
def test_lost_leader_is_replaced_when_its_first_membership_ends(
    lab: Lab, zookeeper: ZooKeeperServer, fault: Callable[[Node], None]
) -> None:
    """That is the one in the Kafka group, whose session is shorter than ZooKeeper's. A leader that was only suspended
    detects after it resumes that it no longer leads."""
    pair = Lab(lab.source, lab.target, (unique_name("A"), unique_name("B")))
    properties = pair.properties(zookeeper)
    with ExitStack() as ends:
        one = ends.enter_context(Node(properties, name="one"))
        one.wait_running()
        two = ends.enter_context(Node(properties, name="two"))
        two.wait_answering()
        led = one.flow(pair.flow)
        wait_until(lambda: two.flow(pair.flow).get("leader") == led["leader"], 60, "the second node shows the leader")
        topic = pair.topic(one)
        with pair.load(topic) as load:
            load.wait_for_more(PER_SECOND)
            fault(one)
            began = time.monotonic()
            within = SESSION + TAKEN_OVER + NOISE
            leads = wait_until(lambda: another(two.flow(pair.flow), led), within, "the second node leads")
            print(f"the second node led after {time.monotonic() - began:.1f} s")
            if one.process.running:
                freezing.thaw(one.process)
                wait_until(lambda: one.flow(pair.flow).get("leader") == leads, 60, "the first node follows")
            load.wait_for_more(PER_SECOND)
            load.stop()
        pair.verify(topic, repeats_allowed=True)
        with freezing.frozen(zookeeper.process):
            assert two.stop() == 0  # stopping takes seconds even if the other side does not respond


def another(flow: dict[str, Any], led: dict[str, Any]) -> str | None:
    """Return the leader if it differs from the one in ``led`` and has a later epoch."""
    leader = flow.get("leader")  # of an empty flow, if the node did not respond in time, there is none
    return leader if leader is not None and leader != led["leader"] and flow["epoch"] > led["epoch"] else None


@pytest.mark.long  # tests/integration/test_reload.py has one node
def test_changed_file_restarts_the_flow_on_both_nodes(lab: Lab, zookeeper: ZooKeeperServer) -> None:
    """One node is notified by a signal, the other detects the change. A heartbeat flow suffices and needs no Spark."""
    own = Lab(lab.source, lab.target, (unique_name("A"), unique_name("B")))
    plan = own.properties(zookeeper) | {f"{own.flow}.enabled": "false"}
    with (
        Node(plan | {"mm2.node.id": "n1"}, name="n1") as first,
        Node(plan | {"mm2.node.id": "n2"}, name="n2") as second,
    ):
        nodes = first, second

        def shared() -> int | None:
            """Return the epoch in which both nodes are healthy and see each other."""
            flows = [node.flow(own.flow) for node in nodes]
            well = all(flow.get("state") == "RUNNING" and not flow["reasons"] for flow in flows)
            if not well or len({(flow["leader"], flow["epoch"], len(flow["members"])) for flow in flows}) > 1:
                return None
            beats = [one["state"] for one in flows[0]["tasks"] if one["kind"] == "heartbeat"]
            return int(flows[0]["epoch"]) if len(flows[0]["members"]) == len(nodes) and beats == ["RUNNING"] else None

        before = wait_until(shared, COPIED, "two nodes share the flow")
        assert before is not None
        for node in nodes:
            node.rewrite(plan | {"mm2.node.id": node.name, f"{own.aliases[1]}.offset.flush.interval.ms": "2000"})
        first.process.signal(signal.SIGHUP)
        for node in nodes:
            node.process.wait_until_output(f"{own.flow}: restarting", REPORTED, f"{node.name} reloads the file")
            node.process.wait_until_output("new configuration applied", REPORTED, f"the file is applied on {node.name}")
        after = wait_until(shared, COPIED, "they share the flow again")
        assert after is not None
        assert after > before, "epochs continue to increase"
        assert (first.stop(), second.stop()) == (0, 0)
