"""The rows of the table: each fault, and what must be shown while it lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import javaproperties
from confluent_kafka import OFFSET_END, TopicPartition

from tests.faults.outages.judgement import Expected
from tests.faults.outages.stage import CLICKS, FEW, ORDERS, PARTITIONS, TASKS, Stage
from tests.lab.cluster import KafkaCluster
from tests.lab.freezing import frozen
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.quotas import set_quota
from tests.lab.records import Outgoing, write
from tests.lab.topic_configs import alter
from tests.lab.waiting import wait_until

SEEN = 30.0  # seconds until a node shows what it was told
EARLY, LATE = 14.0, 38.0  # seconds: an end offset is known for 10 s, and /health waits 30 s
REGISTERED = 100.0  # seconds: without executors for 30 s, an engine is replaced by one that registers with the master
LARGE = 20_000  # bytes of a record that the remote topic rejects
SLOW = 5_000  # bytes per second
REASON = "CHG-1234"
PER_SECOND = 50  # records of 1 kB, ten times as much


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A fault that lasts while the block of ``fault`` runs. ``moments``: seconds after which the nodes are observed.

    ``in_gate``: the row is part of ``make test``. ``on_spark_cluster``: the lanes run on one.
    """

    name: str
    fault: Callable[[Stage], AbstractContextManager[None]]
    expected: Expected
    in_gate: bool = False
    on_spark_cluster: bool = False
    moments: tuple[float, ...] = (EARLY, LATE)


@contextmanager
def _killed(*clusters: KafkaCluster) -> Iterator[None]:
    for cluster in clusters:
        cluster.broker(1).kill()
    try:
        yield
    finally:
        for cluster in clusters:
            cluster.heal()


@contextmanager
def _source_dead(stage: Stage) -> Iterator[None]:
    with _killed(stage.source):
        yield


@contextmanager
def _source_hung(stage: Stage) -> Iterator[None]:
    with frozen(stage.source.broker(1).process):
        yield


@contextmanager
def _source_cut_off(stage: Stage) -> Iterator[None]:
    stage.cable.cut()
    stage.write(ORDERS)  # nobody tells the nodes
    try:
        yield
    finally:
        stage.cable.heal()


@contextmanager
def _target_dead(stage: Stage) -> Iterator[None]:
    with _killed(stage.target):
        stage.write(ORDERS)
        yield


@contextmanager
def _target_hung(stage: Stage) -> Iterator[None]:
    with frozen(stage.target.broker(1).process):
        stage.write(ORDERS)
        yield


@contextmanager
def _both_dead(stage: Stage) -> Iterator[None]:
    with _killed(stage.source, stage.target):
        yield


def _paused(*topic: str) -> Callable[[Stage], AbstractContextManager[None]]:
    @contextmanager
    def paused(stage: Stage) -> Iterator[None]:
        stage.command("pause", *topic, "--reason", REASON)
        stage.write(ORDERS)
        yield
        stage.command("resume", *topic)

    return paused


@contextmanager
def _stopped_by_a_loss(stage: Stage) -> Iterator[None]:
    """Retention removes records of a paused topic."""
    stage.command("pause", "--topic", ORDERS)
    _wait_state(stage.nodes["one"], ORDERS, "PAUSED")
    stage.write(ORDERS)
    gone = [TopicPartition(ORDERS, number, OFFSET_END) for number in range(PARTITIONS)]
    for future in stage.source.admin.delete_records(gone).values():
        future.result()
    stage.write(ORDERS)
    stage.command("resume", "--topic", ORDERS)
    _wait_state(stage.nodes["one"], ORDERS, "FAILED")
    yield
    for number in range(PARTITIONS):
        stage.command("accept-loss", "--topic", ORDERS, "--partition", str(number))


@contextmanager
def _record_rejected(stage: Stage) -> Iterator[None]:
    alter(stage.target, f"A.{ORDERS}", "max.message.bytes", str(LARGE // 2))
    write(stage.source.bootstrap, ORDERS, [Outgoing(value=bytes(LARGE), partition=0)])
    _wait_state(stage.nodes["one"], ORDERS, "FAILED")
    stage.write(ORDERS)
    yield
    alter(stage.target, f"A.{ORDERS}", "max.message.bytes", None)
    for number in range(TASKS):
        stage.command("restart", f"MirrorSourceConnector-{number}")


def _wait_state(node: Node, topic: str, state: str) -> None:
    wait_until(lambda: node.topic("A->B", topic).get("state") == state, SEEN, f"{topic} is {state}")


def _node_killed(*, leads: bool) -> Callable[[Stage], AbstractContextManager[None]]:
    @contextmanager
    def killed(stage: Stage) -> Iterator[None]:
        leader, follower = stage.nodes.roles()
        victim = leader if leads else follower
        victim.kill()
        stage.write(ORDERS)
        yield
        victim.start()

    return killed


@contextmanager
def _all_nodes_dead(stage: Stage) -> Iterator[None]:
    for node in stage.nodes.by_name.values():
        node.kill()
    yield
    for node in stage.nodes.by_name.values():
        node.start()


@contextmanager
def _engine_restarting(stage: Stage) -> Iterator[None]:
    for node in stage.nodes.by_name.values():
        for process in node.members("jvm"):
            process.kill()
    stage.write(ORDERS)
    yield


@contextmanager
def _no_executor(stage: Stage) -> Iterator[None]:
    """The workers die with their executors; Spark's master goes on."""
    assert stage.spark is not None, "the row needs a Spark cluster"
    for worker in stage.spark.workers:
        worker.kill()
    stage.write(ORDERS)
    yield
    for worker in stage.spark.workers:
        worker.start()


def _throttled(*, at_source: bool) -> Callable[[Stage], AbstractContextManager[None]]:
    @contextmanager
    def throttled(stage: Stage) -> Iterator[None]:
        cluster = stage.source if at_source else stage.target
        load = Load(
            stage.source, ORDERS, partitions=PARTITIONS, per_second=PER_SECOND, value_bytes=LARGE // 20, codec="none"
        )
        with set_quota(cluster, "consumer_byte_rate" if at_source else "producer_byte_rate", SLOW), load:
            yield

    return throttled


@contextmanager
def _changed(nodes: Mapping[Node, str]) -> Iterator[None]:
    """Replace the files of nodes while the block runs."""
    before = {node: node.file.read_text() for node in nodes}
    for node, text in nodes.items():
        node.rewrite(_without_listeners(text))
    yield
    for node, text in before.items():
        node.rewrite(_without_listeners(text))


def _without_listeners(text: str) -> str:
    """`Node.rewrite` adds the listener."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("listeners="))


def _with(node: Node, **changes: str) -> str:
    settings = dict(javaproperties.loads(node.file.read_text()))
    return javaproperties.dumps(settings | changes, timestamp=False)


@contextmanager
def _files_differ(stage: Stage) -> Iterator[None]:
    """The leader has the older file."""
    leader, _ = stage.nodes.roles()
    with _changed({leader: _with(leader, **{"A->B.topics": ORDERS})}):
        stage.write(CLICKS)
        yield


@contextmanager
def _file_broken(stage: Stage) -> Iterator[None]:
    node = stage.nodes["one"]
    with _changed({node: _with(node, **{"tasks.max": "many"})}):
        yield


@contextmanager
def _file_narrowed(stage: Stage) -> Iterator[None]:
    with _changed({node: _with(node, **{"A->B.topics": ORDERS}) for node in stage.nodes.by_name.values()}):
        stage.write(CLICKS)
        yield


@contextmanager
def _brokers_restarted(stage: Stage) -> Iterator[None]:
    for cluster in (stage.source, stage.target):
        cluster.broker(1).restart()
    stage.write(ORDERS)
    yield


SOURCE_SILENT = Expected(
    source=False,
    state="WAITING",
    health=False,
    says=(r"\bA\b.*(not answered|unreachable|cannot be reached|does not answer)",),
    logs=(r"WARNING .*A->B",),
    alerts={"MM2FlowNotRunning": 11, "MM2ClusterUnreachable": 6},
)
TARGET_SILENT = Expected(
    target=False,
    state="WAITING",
    health=False,
    waits=(ORDERS,),
    written=FEW,
    says=(r"\bB\b.*(not answered|unreachable|cannot be reached|does not answer)",),
    logs=(r"WARNING .*A->B",),
    alerts={"MM2FlowNotRunning": 11, "MM2ClusterUnreachable": 6},
)

NOT_COPIED = {"MM2LagHigh": 45, "MM2FarBehind": 90}
"""Of records that wait since the fault: after 5 min for 30 min, and after an hour for 15 min."""
TOO_SLOW = {"MM2LagGrows": 31, "MM2LagHigh": 61, "MM2FarBehind": 25 * 60}
"""Of a lag that grows by more than half a second per second."""
PAUSED = {"MM2PausedLong": 25 * 60, **NOT_COPIED}

ROWS = (
    Row(name="source dead", fault=_source_dead, expected=SOURCE_SILENT, in_gate=True),
    Row(name="source hung", fault=_source_hung, expected=SOURCE_SILENT, in_gate=True),
    Row(name="cut off from the source", fault=_source_cut_off, expected=SOURCE_SILENT),
    Row(name="target dead", fault=_target_dead, expected=TARGET_SILENT, in_gate=True),
    Row(name="target hung", fault=_target_hung, expected=TARGET_SILENT),
    Row(
        name="both clusters dead",
        fault=_both_dead,
        expected=Expected(
            source=False,
            target=False,
            state="WAITING",
            health=False,
            alerts={"MM2FlowNotRunning": 11, "MM2ClusterUnreachable": 6},
        ),
    ),
    Row(
        name="one topic paused",
        fault=_paused("--topic", ORDERS),
        expected=Expected(waits=(ORDERS,), written=FEW, says=(f"paused: .* \\(admin: {REASON}\\)",), alerts=PAUSED),
        in_gate=True,
    ),
    Row(
        name="flow paused",
        fault=_paused(),
        expected=Expected(
            state="PAUSED", waits=(ORDERS,), written=FEW, says=(f"paused: .* \\(admin: {REASON}\\)",), alerts=PAUSED
        ),
    ),
    Row(
        name="partitions stopped by a loss",
        fault=_stopped_by_a_loss,
        expected=Expected(
            state="FAILED",
            health=False,
            waits=(ORDERS,),
            says=("accept-loss",),
            alerts={"MM2RecordsLost": 2, "MM2PartitionsFailed": 6},
        ),
    ),
    Row(
        name="record rejected by the target",
        fault=_record_rejected,
        expected=Expected(
            state="FAILED",
            health=False,
            waits=(ORDERS,),
            says=("MESSAGE_TOO_LARGE",),
            alerts={"MM2PartitionsFailed": 6, **NOT_COPIED},
        ),
    ),
    Row(
        name="node dead",
        fault=_node_killed(leads=False),
        expected=Expected(alerts={"MM2NodeDown": 3, "MM2FewerNodes": 11}),
        in_gate=True,
    ),
    Row(
        name="leader dead",
        fault=_node_killed(leads=True),
        expected=Expected(alerts={"MM2NodeDown": 3, "MM2FewerNodes": 11}),
    ),
    Row(
        name="all nodes dead",
        fault=_all_nodes_dead,
        expected=Expected(ready=False, alerts={"MM2AllNodesDown": 2, "MM2NodeDown": 3}),
    ),
    Row(
        name="engine restarting",
        fault=_engine_restarting,
        # partitions move to the node whose engine is first, so that their lags are unknown for seconds
        expected=Expected(
            state="WAITING",
            health=False,
            ready=False,
            alerts={"MM2FlowNotRunning": 11},
            # recorded once, since an engine is back within seconds: a single value of a counter does not grow
            possible=("MM2LagHigh", "MM2FarBehind", "MM2NoHeartbeats"),
        ),
        moments=(1.0,),
    ),
    Row(
        name="no executor",
        fault=_no_executor,
        expected=Expected(
            state="WAITING",
            health=False,
            waits=(ORDERS,),
            says=("Spark master spark://.* has started no executor within 10 s",),
            logs=("WARNING .*no executor",),
            alerts={"MM2FlowNotRunning": 11, **NOT_COPIED},
        ),
        on_spark_cluster=True,
        moments=(EARLY, REGISTERED),
    ),
    Row(
        name="quota on the source",
        fault=_throttled(at_source=True),
        expected=Expected(waits=(ORDERS,), counted=False, says=("limited by the source: quota",), alerts=TOO_SLOW),
    ),
    Row(
        name="quota on the target",
        fault=_throttled(at_source=False),
        expected=Expected(
            waits=(ORDERS,), says=("limited by the target: quota",), per_second=PER_SECOND, alerts=TOO_SLOW
        ),
    ),
    Row(
        name="files of two nodes differ",
        fault=_files_differ,
        expected=Expected(
            says=("different configuration", CLICKS),
            logs=(f"WARNING .*{CLICKS}",),
            alerts={"MM2FlowConfigDiffers": 21, "MM2TopicsLeftSelection": 21},
        ),
        in_gate=True,
    ),
    Row(
        name="configuration file broken",
        fault=_file_broken,
        expected=Expected(alerts={"MM2ConfigNotTaken": 2}),
    ),
    Row(
        name="configuration file narrowed",
        fault=_file_narrowed,
        expected=Expected(says=(CLICKS,), logs=(f"WARNING .*{CLICKS}",), alerts={"MM2TopicsLeftSelection": 21}),
    ),
    Row(name="brokers restarted one after the other", fault=_brokers_restarted, expected=Expected(alerts={})),
)
