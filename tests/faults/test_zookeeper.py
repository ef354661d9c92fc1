"""Nodes that elect on ZooKeeper: it goes away while data flows, leaders die or hang, files contradict each other."""

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

from mm2.core.zookeeper_settings import SESSION_TIMEOUT_MS
from tests.faults.load import Load
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until
from tests.lab.zookeeper import ZooKeeperServer

OUTAGE = 10.0  # seconds that ZooKeeper is away; its sessions last 20
LONGEST_PAUSE = 5.0  # seconds without a new record on the target: a busy machine pauses too, an outage of 10 s does not
SESSION = 6.0  # seconds where a test waits for the end of a session
TAKEN_OVER = 8.0  # seconds after that: the limit of the issue for a node that was killed
COPIED = 90.0
SAID = 60.0  # seconds until a node has come so far as to notice, while its Spark starts on the same cores
PARTITIONS = 2
PER_SECOND = 2_000
WELL = {"status": "UP", "reasons": []}


@dataclass(frozen=True, slots=True)
class Lab:
    """Two clusters that other tests use as well, so that aliases, topics and roots are this one's own."""

    source: KafkaCluster
    target: KafkaCluster
    aliases: tuple[str, str]

    @property
    def flow(self) -> str:
        return "->".join(self.aliases)

    def properties(self, server: ZooKeeperServer, **own: str) -> dict[str, str]:
        """``own``: keys of ours without ``mm2.zookeeper.``, with _ for dots."""
        told = {f"mm2.zookeeper.{name.replace('_', '.')}": text for name, text in own.items()}
        return self.without_zookeeper() | {
            "mm2.election": "zookeeper",
            "mm2.zookeeper.connect": f"{server.address}/{self.aliases[0]}/root",
            **told,
        }

    def without_zookeeper(self) -> dict[str, str]:
        flow = one_flow(self.source, self.target, aliases=self.aliases, topics=f"{self.aliases[0]}-.*")
        return flow | {"mm2.lanes": "1"}

    def topic(self, node: Node) -> str:
        """A source topic that ``node`` copies."""
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
    """Has a digest identity, and is started while ZooKeeper is not there."""
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
            told = wait_for_reason(node, f"election /{lab.aliases[0]}/root/mm2/{lab.flow} on ZooKeeper")
            assert f"{zookeeper.address}: no contact" in told
            assert "is mm2.zookeeper.connect right?" in told
        finally:
            zookeeper.start()
        node.wait_running()
        yield node


def wait_for_reason(node: Node, words: str) -> str:
    """A reason of /health with these words."""
    node.wait_answering()

    def found() -> list[str]:
        return [reason for reason in node.health().get("reasons", ()) if words in reason]

    return wait_until(found, SAID, f"/health of {node.name} says: {words}")[0]


def freeze(server: ZooKeeperServer) -> Callable[[], object]:
    """As a machine that hangs; what ends it."""
    server.process.signal(signal.SIGSTOP)
    return lambda: server.process.signal(signal.SIGCONT)


def stop(server: ZooKeeperServer) -> Callable[[], object]:
    server.stop()
    return server.start


@pytest.mark.parametrize("away", [freeze, stop])
def test_zookeeper_is_away_for_ten_seconds_and_nobody_notices(
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
    assert longest_pause(history) < LONGEST_PAUSE, history
    after = node.flow(lab.flow)
    assert (after["leader"], after["epoch"]) == (before["leader"], before["epoch"])
    assert "no longer leads" not in node.process.output()
    wait_until(lambda: node.health() == WELL, 30, "the node has nothing to complain of")


def record(history: list[tuple[float, int]], remote: tuple[str, str], seconds: float) -> None:
    """How many records the remote topic had when, for so long."""
    end = time.monotonic() + seconds

    def passed() -> bool:
        history.append((time.monotonic(), end_offset_sum(*remote)))
        return time.monotonic() >= end

    wait_until(passed, seconds + 30, "the time is over")


def longest_pause(history: list[tuple[float, int]]) -> float:
    """Seconds without a new record."""
    grown = [history[0][0]]
    grown += [when for (_, before), (when, now) in itertools.pairwise(history) if now > before]
    grown.append(history[-1][0])
    return max(later - earlier for earlier, later in itertools.pairwise(grown))


def test_a_node_whose_file_elects_by_the_group_is_refused(lab: Lab, zookeeper: ZooKeeperServer, node: Node) -> None:
    node.wait_running()
    epoch = node.flow(lab.flow)["epoch"]
    with Node(lab.without_zookeeper(), name="contradicting") as other:
        told = wait_for_reason(other, "nodes with mm2.election = zookeeper, by")
        assert f"{zookeeper.address}/{lab.aliases[0]}/root/mm2/" in told
        assert "this node's file says otherwise" in told
        assert other.stop() == 0
    assert node.flow(lab.flow)["epoch"] == epoch
    wait_until(lambda: node.health() == WELL, 30, "the node has nothing to complain of")


def test_a_node_with_a_sasl_identity_copies(lab: Lab) -> None:
    one = Lab(lab.source, lab.target, (unique_name("A"), unique_name("B")))
    with ZooKeeperServer("guarded", users={"mm2": "sasl-secret"}) as server:
        wrong = one.properties(server, auth_scheme="sasl", auth_username="mm2", auth_password="a guess")
        with Node(wrong, name="wrong") as node:
            wait_for_reason(node, "refuse our user and password")
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
    leader.process.signal(signal.SIGSTOP)


@pytest.mark.parametrize("fault", [kill, pause])
def test_a_leader_that_is_gone_is_replaced_after_its_session(
    lab: Lab, zookeeper: ZooKeeperServer, fault: Callable[[Node], None]
) -> None:
    """One that was only paused finds, when it goes on, that it no longer leads."""
    pair = Lab(lab.source, lab.target, (unique_name("A"), unique_name("B")))
    properties = pair.properties(zookeeper, session_timeout_ms=str(round(SESSION * 1000)))
    with ExitStack() as ends:
        one = ends.enter_context(Node(properties, name="one"))
        one.wait_running()
        two = ends.enter_context(Node(properties, name="two"))
        two.wait_answering()
        led = one.flow(pair.flow)
        wait_until(lambda: two.flow(pair.flow)["leader"] == led["leader"], 60, "the second node knows who leads")
        topic = pair.topic(one)
        with pair.load(topic) as load:
            load.wait_for_more(PER_SECOND)
            fault(one)
            leads = wait_until(lambda: another(two.flow(pair.flow), led), SESSION + TAKEN_OVER, "the second node leads")
            if one.process.running:
                one.process.signal(signal.SIGCONT)
                wait_until(lambda: one.flow(pair.flow).get("leader") == leads, 60, "the first node follows")
            load.wait_for_more(PER_SECOND)
            load.stop()
        pair.verify(topic, repeats_allowed=True)
        came_back = freeze(zookeeper)
        try:
            assert two.stop() == 0  # which it does within seconds, whoever does not answer
        finally:
            came_back()


def another(flow: dict[str, Any], led: dict[str, Any]) -> str | None:
    """The leader, if it is another one than that which led, in a later epoch."""
    return flow["leader"] if flow["leader"] != led["leader"] and flow["epoch"] > led["epoch"] else None


def test_a_changed_file_starts_a_flow_again_on_both_of_its_nodes(lab: Lab, zookeeper: ZooKeeperServer) -> None:
    """One hears of it by a signal, the other sees it. Heartbeats are enough for that, and need no Spark."""
    own = Lab(lab.source, lab.target, (unique_name("A"), unique_name("B")))
    plan = own.properties(zookeeper) | {f"{own.flow}.enabled": "false"}
    with (
        Node(plan | {"mm2.node.id": "n1"}, name="n1") as first,
        Node(plan | {"mm2.node.id": "n2"}, name="n2") as second,
    ):
        nodes = first, second

        def shared() -> int | None:
            """The epoch in which both are well and see each other."""
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
            node.process.wait_until_output(f"{own.flow}: starts again", SAID, f"{node.name} takes the file over")
            node.process.wait_until_output("is in force", SAID, f"the file is in force at {node.name}")
        after = wait_until(shared, COPIED, "they share the flow again")
        assert after is not None
        assert after > before, "epochs go on where they were"
        assert (first.stop(), second.stop()) == (0, 0)
