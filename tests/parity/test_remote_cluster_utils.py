"""`mm2.client` compared to Kafka's RemoteClusterUtils and MirrorClient: same questions, same clusters."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from mm2.client import NoCheckpoints
from tests.lab.checkpoints import Checkpoint, write_checkpoints
from tests.lab.cluster import KafkaCluster
from tests.lab.positions import positions
from tests.parity.remote_cluster_utils import Answers, Question, ask_java, ask_mm2
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

Both = Callable[[Question], tuple[Answers, Answers]]

pytestmark = pytest.mark.timeout(600)  # the first test runs the scenario


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


def of_policies(kafka: KafkaCluster) -> list[Question]:
    return [
        Question(properties={"bootstrap.servers": kafka.bootstrap, **policy}, aliases=ALIASES) for policy in POLICIES
    ]


def of_offsets(kafka: KafkaCluster) -> list[Question]:
    properties = {"bootstrap.servers": kafka.bootstrap}
    matching = [Question(properties=properties, remote="A", pattern=pattern) for pattern in PATTERNS]
    return [Question(properties=properties, remote="A", groups=GROUPS), *matching]


def of_scenario(scenario: Scenario) -> list[Question]:
    return [
        Question(
            properties={"bootstrap.servers": cluster.bootstrap},
            aliases=("A", "B"),
            remote="A",
            groups=(READERS, "nobody"),
            pattern=".*",
        )
        for cluster in (scenario.b, scenario.c)
    ]


@pytest.fixture(scope="module")
def both(kafka: KafkaCluster, scenario: Scenario) -> Both:
    """Returns mm2's and Java's answers to a question. One process of Java answers those of all tests."""
    questions = [*of_policies(kafka), *of_offsets(kafka), *of_scenario(scenario)]
    ours = [ask_mm2(one) for one in questions]
    answers = {one.line(): pair for one, *pair in zip(questions, ours, ask_java(*questions), strict=True)}

    def answer(question: Question) -> tuple[Answers, Answers]:
        mm2, java = answers[question.line()]
        return mm2, java

    return answer


def test_topic_names_with_every_policy(kafka: KafkaCluster, both: Both) -> None:
    for question in of_policies(kafka):
        ours, java = both(question)
        assert ours == java, question.properties
        assert java.heartbeat_topics >= {"heartbeats"}


def test_offsets(kafka: KafkaCluster, both: Both) -> None:
    answers = []
    for question in of_offsets(kafka):
        ours, java = both(question)
        assert ours == java, question
        answers.append(java)
    assert answers[0].translated["readers"] == positions(WRITTEN[1], WRITTEN[4])
    assert answers[0].translated["nobody"] == {}
    assert [sorted(one.matching) for one in answers[1:]] == [
        ["readers", "readers-2"],
        ["readers"],
        sorted({one.group for one in WRITTEN}),
        [],
    ]


@pytest.mark.long  # the part of mm2: tests/integration/client
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


@pytest.mark.long  # the part of mm2: tests/unit/client/test_offsets.py
def test_null_value_is_an_error_in_java_only(kafka: KafkaCluster) -> None:
    """mm2 treats a null value as a deleted checkpoint, as compaction does."""
    topic = kafka.create_topic("T.checkpoints.internal")
    write_checkpoints(kafka, topic, [*WRITTEN, (WRITTEN[4].encoded()[0], None)])
    question = Question(properties={"bootstrap.servers": kafka.bootstrap}, remote="T", groups=("readers",))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        ask_java(question)
    assert "NullPointerException" in caught.value.__notes__[0]
    assert ask_mm2(question).translated == {"readers": positions(WRITTEN[1])}


def test_clusters_of_the_scenario(scenario: Scenario, both: Both) -> None:
    """B was written by mm2 and Java in turn, C by Java alone."""
    for question in of_scenario(scenario):
        ours, java = both(question)
        assert ours == java
        assert java.checkpoint_topics == {"A.checkpoints.internal"}
        assert f"A.{STILL}" in java.remote_topics_of["A"]
        (position,) = java.translated[READERS].values()
        assert position.offset == STILL_RECORDS
