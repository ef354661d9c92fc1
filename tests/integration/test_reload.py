"""A file that changes while nodes run: what it reaches changes, and nothing else does."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.faults.load import Load
from tests.faults.workers import lanes
from tests.integration.shared_node import COPIED
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.node import RUNS_WITHIN, Node
from tests.lab.records import plain, write
from tests.lab.settings import ONE_COPY
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

NOTICED = 60.0  # seconds until a file was noticed and put in force: looked at every two, but the cores are shared
RECORDS = 500
HALF = 200  # records per second and flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A node with the flows ``first`` and ``second``, from two aliases of one cluster into another one."""

    node: Node
    source: KafkaCluster
    target: KafkaCluster
    a: str
    c: str
    b: str
    plan: Mapping[str, str]

    @property
    def first(self) -> str:
        return f"{self.a}->{self.b}"

    @property
    def second(self) -> str:
        return f"{self.c}->{self.b}"

    def topic(self, alias: str, stem: str = "kept") -> str:
        return self.source.create_topic(unique_name(f"{alias}-{stem}"), 2)

    def rewrite(self, **changes: str) -> None:
        """The file as it was, but for ``changes``, keys with ``first`` or ``second`` for the flow."""
        named = {
            key.replace("first", self.first).replace("second", self.second).replace("_", "."): value
            for key, value in changes.items()
        }
        self.node.rewrite({**self.plan, **named})

    def wait_said(self, text: str, since: int, sentence: str) -> None:
        """Until the log says it, beyond its first ``since`` characters."""
        wait_until(lambda: text in self.log(since), NOTICED, sentence)

    def log(self, since: int = 0) -> str:
        return self.node.process.output()[since:]

    def flow(self, name: str) -> dict[str, Any]:
        return self.node.flow(name)

    def wait_copied(self, alias: str, topic: str) -> None:
        """Until the remote topic equals the topic: nothing missing, nothing twice, all in order."""
        remote = (self.target.bootstrap, f"{alias}.{topic}")
        verdict = wait_until_copied((self.source.bootstrap, topic), remote, COPIED)
        assert verdict.exact

    def write_and_wait(self, alias: str, topic: str) -> None:
        write(self.source.bootstrap, topic, plain(RECORDS, partitions=2))
        self.wait_copied(alias, topic)


@pytest.fixture(scope="module")
def started(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Running]:
    """It starts with a file that replicates nothing: Spark comes with the first file that does."""
    a, c, b = (unique_name(stem) for stem in ("A", "C", "B"))
    idle = {
        "clusters": f"{a}, {c}, {b}",
        f"{a}.bootstrap.servers": cluster_a.bootstrap,
        f"{c}.bootstrap.servers": cluster_a.bootstrap,
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        **ONE_COPY,
        "refresh.topics.interval.seconds": "1",
        "heartbeats.replication.enabled": "false",
        "emit.heartbeats.enabled": "false",
        f"{a}->{b}.emit.heartbeats.enabled": "true",
        "mm2.lanes": "1",  # one process for all slots: a flow that is disturbed by another one would show it
    }
    plan = idle | {
        f"{a}->{b}.enabled": "true",
        f"{a}->{b}.topics": f"{a}-kept.*",
        f"{c}->{b}.enabled": "true",
        f"{c}->{b}.topics": f"{c}-kept.*",
    }
    with Node(idle, name="reloading") as node:
        running = Running(node=node, source=cluster_a, target=cluster_b, a=a, c=c, b=b, plan=plan)
        wait_until(lambda: running.flow(running.first).get("state") == "RUNNING", RUNS_WITHIN, "heartbeats are written")
        assert node.members("jvm") == []
        running.rewrite()
        wait_until(lambda: running.flow(running.second), NOTICED, "the new flow is there")
        node.wait_running()
        yield running


@pytest.fixture
def running(started: Running) -> Iterator[Running]:
    """The node as it started; what a test wrote into the file is taken back."""
    yield started
    since = len(started.log())
    started.rewrite()
    started.node.process.signal(signal.SIGHUP)
    wait_until(
        lambda: " is in force" in started.log(since) or "says what this node runs on" in started.log(since),
        NOTICED,
        "the file of before is in force again",
    )
    started.node.wait_running()


def test_other_topics_are_taken_over_while_records_go_on_being_copied(running: Running) -> None:
    kept, new = running.topic(running.a), running.topic(running.a, "new")
    running.write_and_wait(running.a, kept)
    since, before = len(running.log()), {one.pid for one in lanes(running.node)}
    with Load(running.source, kept, partitions=2, per_second=HALF) as load:
        load.wait_for_more(HALF)
        running.rewrite(first_topics=f"{running.a}-kept.*, {running.a}-new.*")
        running.write_and_wait(running.a, new)
        load.wait_for_more(HALF)
        load.stop()
    running.wait_copied(running.a, kept)
    log = running.log(since)
    assert f"{running.first} goes on otherwise" in log
    assert "is let go" not in log
    assert "leaves" not in log
    assert {one.pid for one in lanes(running.node)} == before


def test_other_tasks_are_taken_over_too(running: Running) -> None:
    topic = running.topic(running.a)
    running.write_and_wait(running.a, topic)
    with Load(running.source, topic, partitions=2, per_second=HALF) as load:
        running.rewrite(first_tasks_max="2")

        def spread() -> bool:
            tasks = [one for one in running.flow(running.first)["tasks"] if one["kind"] == "source"]
            return [one["state"] for one in tasks] == ["RUNNING", "RUNNING"]

        wait_until(spread, NOTICED, "two slots copy")
        load.wait_for_more(HALF)
        load.stop()
    running.wait_copied(running.a, topic)


def test_a_flow_that_starts_again_disturbs_no_other(running: Running) -> None:
    kept, again = running.topic(running.a), running.topic(running.c)
    running.write_and_wait(running.a, kept)
    running.write_and_wait(running.c, again)
    pids = {one.pid for one in lanes(running.node)}
    with (
        Load(running.source, kept, partitions=2, per_second=HALF) as untouched,
        Load(running.source, again, partitions=2, per_second=HALF) as disturbed,
    ):
        untouched.wait_for_more(3 * HALF)  # what is shown may be a second old
        since, before = len(running.log()), running.flow(running.first)["epoch"]
        running.rewrite(second_producer_override_acks="1")
        running.wait_said(f"{running.second} starts again", since, "the flow starts again")
        running.wait_said("is in force", since, "it has started again")
        wait_until(lambda: running.flow(running.second)["state"] == "RUNNING", NOTICED, "the flow runs again")
        untouched.wait_for_more(HALF)
        disturbed.wait_for_more(HALF)
        untouched.stop()
        disturbed.stop()
    running.wait_copied(running.a, kept)
    running.wait_copied(running.c, again)
    log = running.log(since)
    assert f"{running.second}: slot 0 is let go" in log
    assert f"{running.first}: " not in log
    assert running.flow(running.first)["epoch"] == before
    assert {one.pid for one in lanes(running.node)} == pids


def test_a_broken_file_is_refused_and_told_until_it_is_repaired(running: Running) -> None:
    topic, since = running.topic(running.a), len(running.log())
    running.rewrite(first_tasks_max="0")
    running.wait_said("cannot be taken over", since, "the broken file is told")
    log = running.log(since)
    line = next(
        number
        for number, text in enumerate(running.node.file.read_text("utf-8").splitlines(), 1)
        if "tasks.max" in text
    )
    assert f"{running.node.file}:{line} {running.first}.tasks.max = 0  must be at least 1" in log
    wait_until(lambda: running.node.metric("mm2_config_last_reload_successful") == 0, NOTICED, "the metric says so")
    wait_until(lambda: "cannot be taken over" in reasons(running, running.second), NOTICED, "/flows says so")
    running.node.wait_running()
    running.write_and_wait(running.a, topic)

    loaded = running.node.metric("mm2_config_last_reload_seconds")
    running.rewrite()
    running.wait_said("is good again", since, "the repaired file is told")
    wait_until(
        lambda: running.node.metric("mm2_config_last_reload_successful") == 1, NOTICED, "the metric says so as well"
    )
    assert running.node.metric("mm2_config_last_reload_seconds") > loaded
    wait_until(lambda: "cannot" not in reasons(running, running.second), NOTICED, "nothing is left in /flows")


def reasons(running: Running, flow: str) -> str:
    return "; ".join(running.flow(flow)["reasons"])


def test_sighup_asks_for_an_answer(running: Running) -> None:
    since = len(running.log())
    running.node.process.signal(signal.SIGHUP)
    running.wait_said("was read again: it says what this node runs on", since, "the node answers")
    assert running.node.process.running


def test_a_flow_goes_and_comes_back(running: Running) -> None:
    topic = running.topic(running.c)
    running.write_and_wait(running.c, topic)
    since = len(running.log())
    running.rewrite(second_enabled="false")
    wait_until(lambda: not running.flow(running.second), NOTICED, "the flow is gone")
    assert f"{running.second}: slot 0 is let go" in running.log(since)
    write(running.source.bootstrap, topic, plain(RECORDS, partitions=2))
    running.rewrite()
    wait_until(lambda: running.flow(running.second), NOTICED, "the flow is back")
    running.wait_copied(running.c, topic)


def test_what_reaches_the_node_waits_and_the_log_level_does_not(running: Running) -> None:
    since = len(running.log())
    running.rewrite(mm2_lanes="3", mm2_log_level="DEBUG")
    running.wait_said("mm2.lanes waits until the node is started again", since, "the pending key is told")
    wait_until(
        lambda: "in force when this node is started again: mm2.lanes" in reasons(running, running.first),
        NOTICED,
        "/flows names the pending key",
    )
    running.wait_said(" DEBUG ", since, "more is logged")
    running.node.wait_running()
    assert running.node.metric("mm2_config_last_reload_successful") == 1


def test_nodes_whose_files_contradict_each_other_say_so(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    a, b = unique_name("A"), unique_name("B")
    properties = {
        "clusters": f"{a}, {b}",
        f"{a}.bootstrap.servers": cluster_a.bootstrap,
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        **ONE_COPY,
        f"{a}->{b}.emit.heartbeats.interval.seconds": "2",
    }
    flow, name = f"{a}->{b}", "emit.heartbeats.interval.seconds"

    def about(node: Node, text: str) -> bool:
        return any(text in reason for reason in node.flow(flow)["reasons"])

    with (
        Node(properties | {"mm2.node.id": "n1"}, name="n1") as first,
        Node(properties | {"mm2.node.id": "n2"}, name="n2") as second,
    ):
        nodes = {"n1": first, "n2": second}

        def leader() -> str | None:
            known = {node.flow(flow).get("leader") for node in nodes.values()}
            return known.pop() if len(known) == 1 else None

        leads = wait_until(leader, RUNS_WITHIN, "two nodes share the flow")
        assert leads is not None
        follows = next(name for name in nodes if name != leads)
        assert not about(nodes[follows], "another configuration")

        other = properties | {"mm2.node.id": follows, f"{flow}.{name}": "3"}
        nodes[follows].rewrite(other)
        says = f"{follows} has another configuration for {flow} than {leads}, which leads: the files"
        wait_until(lambda: about(nodes[follows], f"{says} differ in {name}"), NOTICED, "the follower names the key")
        wait_until(lambda: about(nodes[leads], f"{says} are not the same"), NOTICED, "the leader knows of it too")

        nodes[leads].rewrite(other | {"mm2.node.id": leads})
        wait_until(
            lambda: not any(about(node, "another configuration") for node in nodes.values()),
            NOTICED,
            "the files agree again",
        )
