"""Configuration changes while nodes run: they affect only what they refer to."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.integration.shared_node import COPIED
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.lanes import lanes
from tests.lab.load import Load
from tests.lab.node import RUNS_WITHIN, Node
from tests.lab.records import plain, write
from tests.lab.settings import ONE_COPY
from tests.lab.topic_configs import alter
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

NOTICED = 60.0  # seconds until a changed file is applied: checked every 2 s, but the cores are shared
RECORDS = 500
PER_SECOND = 200  # records per second and flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A node with flows ``first`` and ``second``, from two aliases of one cluster into another cluster."""

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
        """Write the original file with ``changes``, whose keys contain ``first`` or ``second`` for the flow."""
        named = {
            key.replace("first", self.first).replace("second", self.second).replace("_", "."): value
            for key, value in changes.items()
        }
        self.node.rewrite({**self.plan, **named})

    def wait_logged(self, text: str, since: int, what: str) -> None:
        """Wait until the log contains ``text`` after its first ``since`` characters."""
        wait_until(lambda: text in self.log(since), NOTICED, what)

    def log(self, since: int = 0) -> str:
        return self.node.process.output()[since:]

    def flow(self, name: str) -> dict[str, Any]:
        return self.node.flow(name)

    def wait_copied(self, alias: str, topic: str) -> None:
        """Wait until the remote topic equals the topic, without missing, repeated or reordered records."""
        remote = (self.target.bootstrap, f"{alias}.{topic}")
        verdict = wait_until_copied((self.source.bootstrap, topic), remote, COPIED)
        assert verdict.exact

    def write_and_wait(self, alias: str, topic: str) -> None:
        write(self.source.bootstrap, topic, plain(RECORDS, partitions=2))
        self.wait_copied(alias, topic)


@pytest.fixture(scope="module")
def started(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> Iterator[Running]:
    """A node started with a file without replication; Spark starts after the first file that enables it."""
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
        "mm2.lanes": "1",  # one process for all source tasks, so that flows could affect each other
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
        wait_until(lambda: running.flow(running.second), NOTICED, "the new flow is shown")
        node.wait_running()
        yield running


@pytest.fixture
def running(started: Running) -> Iterator[Running]:
    """The node with its original file, which is restored after the test."""
    yield started
    since = len(started.log())
    started.rewrite()
    started.node.process.signal(signal.SIGHUP)
    wait_until(
        lambda: "new configuration applied" in started.log(since) or "reloaded, " in started.log(since),
        NOTICED,
        "the original file is applied again",
    )
    started.node.wait_running()


def test_changed_topics_apply_while_records_are_copied(running: Running) -> None:
    kept, new = running.topic(running.a), running.topic(running.a, "new")
    running.write_and_wait(running.a, kept)
    since, before = len(running.log()), {one.pid for one in lanes(running.node)}
    with Load(running.source, kept, partitions=2, per_second=PER_SECOND) as load:
        load.wait_for_more(PER_SECOND)
        running.rewrite(first_topics=f"{running.a}-kept.*, {running.a}-new.*")
        running.write_and_wait(running.a, new)
        load.wait_for_more(PER_SECOND)
        load.stop()
    running.wait_copied(running.a, kept)
    log = running.log(since)
    assert f"{running.first} reconfigured without restart" in log
    assert "source task 0 released" not in log
    assert "leaves" not in log
    assert {one.pid for one in lanes(running.node)} == before


def test_topics_that_leave_the_selection_are_named_until_they_are_excluded(running: Running) -> None:
    """And an existing topic that enters it is a warning, because its records leave the cluster."""
    dropped, added = running.topic(running.a), running.topic(running.a, "added")
    running.write_and_wait(running.a, dropped)
    since = len(running.log())
    running.rewrite(first_topics=f"{running.a}-added.*")

    def left() -> list[str]:
        return running.flow(running.first)["left_selection"] or []

    wait_until(lambda: dropped in left(), NOTICED, "/flows names what is not copied any more")
    assert running.node.metric("mm2_flow_topics_left_selection", source=running.a, target=running.b) == len(left())
    assert any("not selected any more, although" in reason for reason in running.flow(running.first)["reasons"])
    warnings = [line for line in running.log(since).splitlines() if " WARNING " in line]
    assert [line for line in warnings if "left the selection" in line and dropped in line]
    assert [line for line in warnings if "entered the selection with a changed file" in line and added in line]
    assert f"topic {dropped} was deleted" not in running.log(since)
    running.write_and_wait(running.a, added)
    running.rewrite(first_topics=f"{running.a}-added.*", first_topics_exclude=f"{running.a}-(kept|new).*")
    wait_until(lambda: running.flow(running.first)["left_selection"] == [], NOTICED, "it is intended")


def test_changed_tasks_max_applies(running: Running) -> None:
    topic = running.topic(running.a)
    running.write_and_wait(running.a, topic)
    with Load(running.source, topic, partitions=2, per_second=PER_SECOND) as load:
        running.rewrite(first_tasks_max="2")

        def spread() -> bool:
            tasks = [one for one in running.flow(running.first)["tasks"] if one["kind"] == "source"]
            return [one["state"] for one in tasks] == ["RUNNING", "RUNNING"]

        wait_until(spread, NOTICED, "two source tasks copy")
        load.wait_for_more(PER_SECOND)
        load.stop()
    running.wait_copied(running.a, topic)


def test_restarting_flow_does_not_affect_others(running: Running) -> None:
    kept, again = running.topic(running.a), running.topic(running.c)
    running.write_and_wait(running.a, kept)
    running.write_and_wait(running.c, again)
    pids = {one.pid for one in lanes(running.node)}
    with (
        Load(running.source, kept, partitions=2, per_second=PER_SECOND) as untouched,
        Load(running.source, again, partitions=2, per_second=PER_SECOND) as disturbed,
    ):
        untouched.wait_for_more(3 * PER_SECOND)  # the status can be 1 s old
        since, before = len(running.log()), running.flow(running.first)["epoch"]
        running.rewrite(second_producer_override_acks="1")
        running.wait_logged(f"{running.second} restarting", since, "the flow restarts")
        running.wait_logged("new configuration applied", since, "the flow has restarted")
        wait_until(lambda: running.flow(running.second)["state"] == "RUNNING", NOTICED, "the flow runs again")
        untouched.wait_for_more(PER_SECOND)
        disturbed.wait_for_more(PER_SECOND)
        untouched.stop()
        disturbed.stop()
    running.wait_copied(running.a, kept)
    running.wait_copied(running.c, again)
    log = running.log(since)
    assert f"{running.second}: source task 0 released" in log
    of_first = [line for line in log.splitlines() if f"{running.first}: " in line]
    assert all(" RUNNING after " in line for line in of_first), "only new topics of earlier tests may start late"
    assert running.flow(running.first)["epoch"] == before
    assert {one.pid for one in lanes(running.node)} == pids


def test_invalid_file_is_rejected_and_reported_until_corrected(running: Running) -> None:
    topic, since = running.topic(running.a), len(running.log())
    running.rewrite(first_tasks_max="0")
    running.wait_logged("keeping the previous configuration", since, "the invalid file is reported")
    line = next(
        number
        for number, text in enumerate(running.node.file.read_text("utf-8").splitlines(), 1)
        if "tasks.max" in text
    )
    error = f"{running.node.file}:{line}: error: {running.first}.tasks.max = 0: must be at least 1"
    running.wait_logged(error, since, "the error is reported")
    wait_until(
        lambda: running.node.metric("mm2_config_last_reload_successful") == 0, NOTICED, "the metric shows the failure"
    )
    wait_until(
        lambda: "configuration not reloaded" in reasons(running, running.second), NOTICED, "/flows reports the failure"
    )
    running.node.wait_running()
    running.write_and_wait(running.a, topic)

    loaded = running.node.metric("mm2_config_last_reload_seconds")
    running.rewrite()
    running.wait_logged("reloaded, errors corrected", since, "the corrected file is reported")
    wait_until(
        lambda: running.node.metric("mm2_config_last_reload_successful") == 1, NOTICED, "the metric shows the success"
    )
    assert running.node.metric("mm2_config_last_reload_seconds") > loaded
    wait_until(lambda: "cannot" not in reasons(running, running.second), NOTICED, "/flows reports no problem")


def reasons(running: Running, flow: str) -> str:
    return "; ".join(running.flow(flow)["reasons"])


def test_sighup_reports_an_unchanged_file(running: Running) -> None:
    since = len(running.log())
    running.node.process.signal(signal.SIGHUP)
    running.wait_logged("reloaded, no changes", since, "the node reports the result")
    assert running.node.process.running


def test_flow_is_removed_and_added_again(running: Running) -> None:
    topic = running.topic(running.c)
    running.write_and_wait(running.c, topic)
    since = len(running.log())
    running.rewrite(second_enabled="false")
    wait_until(lambda: not running.flow(running.second), NOTICED, "the flow is removed")
    running.wait_logged(f"{running.second}: source task 0 released", since, "its source task is released")
    write(running.source.bootstrap, topic, plain(RECORDS, partitions=2))
    running.rewrite()
    wait_until(lambda: running.flow(running.second), NOTICED, "the flow is shown again")
    running.wait_copied(running.c, topic)


def test_flow_with_an_offsets_topic_that_loses_offsets_is_rejected_until_corrected(running: Running) -> None:
    d = unique_name("D")
    flow, name = f"{d}->{running.b}", f"mm2-offsets.{d}.internal"
    running.target.create_topic(name, 25, config={"cleanup.policy": "delete"})
    added = {
        "clusters": f"{running.plan['clusters']}, {d}",
        f"{d}.bootstrap.servers": running.source.bootstrap,
        f"{flow}.enabled": "true",
        f"{flow}.topics": f"{d}-.*",
    }
    running.node.rewrite({**running.plan, **added})

    def rejection() -> str:
        state = running.flow(flow)  # it is WAITING for a moment whenever it tries again
        reasons = state["reasons"] if state.get("state") == "FAILED" else []
        return next((reason for reason in reasons if name in reason), "")

    reason = wait_until(rejection, NOTICED, f"the flow is FAILED, and /flows reports why {name} is rejected")
    assert "cleanup.policy=delete" in reason
    assert "kafka-configs.sh --alter" in reason
    assert not running.node.healthy
    assert running.node.get("/health/live") is not None
    assert running.flow(running.first)["state"] == "RUNNING", "the other flows run regardless"

    alter(running.target, name, "cleanup.policy", "compact")
    running.node.wait_running()


def test_node_properties_wait_for_a_restart_except_the_log_level(running: Running) -> None:
    since = len(running.log())
    running.rewrite(mm2_lanes="3", mm2_log_level="DEBUG")
    running.wait_logged("restart this node to apply mm2.lanes", since, "the pending property is logged")
    wait_until(
        lambda: "restart this node to apply: mm2.lanes" in reasons(running, running.first),
        NOTICED,
        "/flows names the pending property",
    )
    running.wait_logged(" DEBUG ", since, "debug messages are logged")
    running.node.wait_running()
    assert running.node.metric("mm2_config_last_reload_successful") == 1


def test_the_level_of_a_logger_of_lanes_changes_while_they_run(running: Running) -> None:
    topic = running.topic(running.a)
    running.write_and_wait(running.a, topic)
    before, since = {one.pid for one in lanes(running.node)}, len(running.log())
    running.rewrite(mm2_log_levels="flows.commit=DEBUG")
    running.wait_logged("new configuration applied", since, "the file is applied")
    running.write_and_wait(running.a, topic)
    stored = f" DEBUG   flows.commit.offset_committer: {topic}-0: source offset "
    running.wait_logged(stored, since, "the lane logs the offsets that it stores")
    assert " DEBUG   mm2" not in running.log(since)
    assert {one.pid for one in lanes(running.node)} == before


def test_nodes_with_contradicting_files_report_it(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    a, b = unique_name("A"), unique_name("B")
    properties = {
        "clusters": f"{a}, {b}",
        f"{a}.bootstrap.servers": cluster_a.bootstrap,
        f"{b}.bootstrap.servers": cluster_b.bootstrap,
        **ONE_COPY,
        f"{a}->{b}.emit.heartbeats.interval.seconds": "2",
    }
    flow, name = f"{a}->{b}", "emit.heartbeats.interval.seconds"

    def has_reason(node: Node, text: str) -> bool:
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
        assert not has_reason(nodes[follows], "different configuration")

        other = properties | {"mm2.node.id": follows, f"{flow}.{name}": "3"}
        nodes[follows].rewrite(other)
        expected = f"{follows} has a different configuration than leader {leads}"
        wait_until(
            lambda: has_reason(nodes[follows], f"{expected} (differing keys: {name})"),
            NOTICED,
            "the follower names the property",
        )
        wait_until(lambda: has_reason(nodes[leads], expected), NOTICED, "the leader reports it too")

        def differ() -> list[float]:
            return [node.metric("mm2_flow_config_differs", source=a, target=b) for node in nodes.values()]

        wait_until(lambda: differ() == [1, 1], NOTICED, "both nodes expose it")

        nodes[leads].rewrite(other | {"mm2.node.id": leads})
        wait_until(
            lambda: not any(has_reason(node, "different configuration") for node in nodes.values()),
            NOTICED,
            "the files are equal again",
        )
        wait_until(lambda: differ() == [0, 0], NOTICED, "both nodes expose that")
