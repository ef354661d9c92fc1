"""`mm2.client` compared to Kafka's RemoteClusterUtils and MirrorClient: same questions, same clusters."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from mm2.client import NoCheckpoints
from tests.lab.checkpoints import Checkpoint, write_checkpoints
from tests.lab.cluster import KafkaCluster
from tests.lab.positions import positions
from tests.parity.remote_cluster_utils import Question, ask_java, ask_mm2
from tests.parity.scenario import READERS, STILL, STILL_RECORDS, Scenario

CLASS = "org.apache.kafka.connect.mirror.{}ReplicationPolicy"
ALIASES = ("A", "B", "C", "D", "X", "my", "")

TOPICS = (
    *("heartbeats", "A.heartbeats", "A.C.heartbeats", "B.C.D.heartbeats", "A.B.A.X.heartbeats", ".heartbeats"),
    *("heartbeats.", "myheartbeats", "A.myheartbeats", "E_heartbeats", "A__heartbeats", "heartbeats-old"),
    *("A.checkpoints.internal", "C.checkpoints.internal", "A__checkpoints__internal", "checkpoints.internal"),
    *("orders", "A.orders", "A.C.orders", "my.app.events", "A__orders", "A.orders.internal", "a..b", "A."),
    *("mm2-offsets.A.internal", "mm2-offset-syncs.A.internal", "__of_a_user", ".hidden.x"),
)

POLICIES: tuple[dict[str, str], ...] = (
    {},
    {"replication.policy.separator": "__"},
    {"replication.policy.separator": "__", "replication.policy.internal.topic.separator.enabled": "false"},
    {"replication.policy.class": CLASS.format("Identity")},
    {"replication.policy.class": CLASS.format("Identity"), "source.cluster.alias": "A"},
)
PATTERNS = ("readers.*", "readers", ".*", "nobody")

OLD = Checkpoint(group="readers", topic="A.orders", partition=0, upstream=10, downstream=12)
WRITTEN = (
    OLD,
    Checkpoint(group="readers", topic="A.orders", partition=1, upstream=5, downstream=5, metadata="höher"),
    Checkpoint(group="readers-2", topic="A.C.orders", partition=0, upstream=1, downstream=2),
    Checkpoint(group="odd, [näme].*", topic="A.orders", partition=0, upstream=3, downstream=4),
    Checkpoint(group="readers", topic="A.orders", partition=0, upstream=20, downstream=21),
    Checkpoint(group="", topic="A.orders", partition=0, upstream=0, downstream=0),
)
GROUPS = ("readers", "readers-2", "odd, [näme].*", "", "reader", "nobody")


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    """A cluster with all kinds of topic names, and with invalid records among its checkpoints."""
    with KafkaCluster("names") as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic)
        key, value = OLD.encoded()
        assert key is not None
        assert value is not None
        garbage = [(b"?", value), (key, b""), (key[:-1], value), (key, value[:5])]
        write_checkpoints(cluster, "A.checkpoints.internal", [*WRITTEN[:2], *garbage, *WRITTEN[2:]])
        yield cluster


def test_topic_names_with_every_policy(kafka: KafkaCluster) -> None:
    questions = [
        Question(properties={"bootstrap.servers": kafka.bootstrap, **policy}, aliases=ALIASES) for policy in POLICIES
    ]
    for question, java in zip(questions, ask_java(*questions), strict=True):
        assert ask_mm2(question) == java, question.properties
        assert java.heartbeat_topics >= {"heartbeats"}


def test_offsets(kafka: KafkaCluster) -> None:
    properties = {"bootstrap.servers": kafka.bootstrap}
    named = Question(properties=properties, remote="A", groups=GROUPS)
    matching = [Question(properties=properties, remote="A", pattern=pattern) for pattern in PATTERNS]
    answers = ask_java(named, *matching)
    for question, java in zip((named, *matching), answers, strict=True):
        assert ask_mm2(question) == java, question
    assert answers[0].translated["readers"] == positions(WRITTEN[1], WRITTEN[4])
    assert answers[0].translated["nobody"] == {}
    assert [sorted(one.matching) for one in answers[1:]] == [
        ["readers", "readers-2"],
        ["readers"],
        sorted({one.group for one in WRITTEN}),
        [],
    ]


def test_unknown_cluster_is_an_error_in_mm2_only(kafka: KafkaCluster) -> None:
    """Java's client creates the topic that it reads."""
    question = Question(properties={"bootstrap.servers": kafka.bootstrap}, remote="nowhere", groups=("readers",))
    topic = "nowhere.checkpoints.internal"
    with pytest.raises(NoCheckpoints, match=topic):
        ask_mm2(question)
    assert topic not in kafka.admin.list_topics(timeout=10).topics
    (java,) = ask_java(question)
    assert java.translated == {"readers": {}}
    assert topic in kafka.admin.list_topics(timeout=10).topics


def test_null_value_is_an_error_in_java_only(kafka: KafkaCluster) -> None:
    """mm2 treats a null value as a deleted checkpoint, as compaction does."""
    topic = kafka.create_topic("T.checkpoints.internal")
    write_checkpoints(kafka, topic, [*WRITTEN, (WRITTEN[4].encoded()[0], None)])
    question = Question(properties={"bootstrap.servers": kafka.bootstrap}, remote="T", groups=("readers",))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        ask_java(question)
    assert "NullPointerException" in caught.value.__notes__[0]
    assert ask_mm2(question).translated == {"readers": positions(WRITTEN[1])}


@pytest.mark.timeout(600)  # runs the scenario if it is the first test
def test_clusters_of_the_scenario(scenario: Scenario) -> None:
    """B was written by mm2 and Java in turn, C by Java alone."""
    questions = [
        Question(
            properties={"bootstrap.servers": cluster.bootstrap},
            aliases=("A", "B"),
            remote="A",
            groups=(READERS, "nobody"),
            pattern=".*",
        )
        for cluster in (scenario.b, scenario.c)
    ]
    for question, java in zip(questions, ask_java(*questions), strict=True):
        assert ask_mm2(question) == java
        assert java.checkpoint_topics == {"A.checkpoints.internal"}
        assert f"A.{STILL}" in java.remote_topics_of["A"]
        (position,) = java.translated[READERS].values()
        assert position.offset == STILL_RECORDS
