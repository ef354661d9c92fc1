from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config import client_keys, connectors, keys, node_keys, security_keys, worker
from mm2.config.changes import FileDiff
from mm2.config.comparison import compare
from mm2.config.reach import Reach
from mm2.core.names import Flow
from tests.unit.config.files import CLUSTERS
from tests.unit.config.readings import diff, flow, reaches, read, said

PLAIN = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = "
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";\n'
)
TLS = "A.security.protocol = SSL\nA.ssl.truststore.type = PEM\nA.ssl.truststore.location = {}/ca.pem\n"


def pem(word: str, content: str) -> str:
    return f"-----BEGIN {word}-----\n{content}\n-----END {word}-----\n"


def to_restart(found: FileDiff) -> tuple[Flow, ...]:
    """Flows that have to drain and begin again."""
    return tuple(one.flow for one in found.changed if one.reach is Reach.FLOW)


def test_the_same_file_says_the_same(tmp_path: Path) -> None:
    found = diff(tmp_path, "topics = a\n", "topics = a\n")
    assert found.says_the_same
    assert found.reach is Reach.NOTHING


def test_comments_order_and_blanks_say_the_same(tmp_path: Path) -> None:
    found = diff(tmp_path, "topics = a\ntasks.max = 4\n", "# why\n\ntasks.max=4\ntopics: a\n")
    assert found.says_the_same


def test_another_way_to_write_a_value_changes_nothing(tmp_path: Path) -> None:
    found = diff(tmp_path, "topics = a,b\ntasks.max = 4\n", "topics = a, b\ntasks.max = +4\n")
    assert (found.reach, found.changed, found.node) == (Reach.NOTHING, (), ())
    assert said(found.idle, tmp_path) == [
        "mm2.properties:5 topics = a, b  (was a,b)",
        "mm2.properties:6 tasks.max = +4  (was 4)",
    ]


def test_a_changed_key_of_a_flow(tmp_path: Path) -> None:
    found = diff(tmp_path, "A->B.tasks.max = 4\n", "\nA->B.tasks.max = 8\n")
    assert found.changed == (flow(found),)
    assert said(flow(found).changes, tmp_path) == ["mm2.properties:6 A->B.tasks.max = 8  (was 4)"]
    assert found.reach is flow(found).reach is Reach.RUNNING
    assert found.to_take_over() == (Flow("A", "B"),)
    assert to_restart(found) == ()


def test_a_key_that_came_and_one_that_went(tmp_path: Path) -> None:
    found = diff(tmp_path, "A->B.tasks.max = 4\nA.client.id = x\n", "topics = orders\n")
    assert said(flow(found).changes, tmp_path) == [
        "mm2.properties:5 topics = orders  (was .*)",
        "mm2.properties: A->B.tasks.max = 1 by default now  (was 4)",
    ]
    found = diff(tmp_path, "B.client.id = x\n", "B.producer.compression.type = zstd\n")
    assert said(flow(found).changes, tmp_path) == [
        "mm2.properties:5 B.producer.compression.type = zstd  (was not set)",
        "mm2.properties: B.client.id = A->B by default now  (was x)",
    ]
    found = diff(tmp_path, "A.consumer.client.id = x\n", "")
    assert said(flow(found).changes, tmp_path) == [
        "mm2.properties: A.consumer.client.id is not set any more  (was x)",
    ]


def test_a_line_that_moved_to_another_place(tmp_path: Path) -> None:
    found = diff(tmp_path, "tasks.max = 4\n", "A->B.tasks.max = 5\n")
    assert said(flow(found).changes, tmp_path) == ["mm2.properties:5 A->B.tasks.max = 5  (was 4)"]
    found = diff(tmp_path, "tasks.max = 4\n", "A->B.tasks.max = 4\n")
    assert (found.changed, found.reach) == ((), Reach.NOTHING)
    assert [change.key for change in found.idle] == ["A->B.tasks.max", "tasks.max"]


def test_a_line_that_another_one_wins_over(tmp_path: Path) -> None:
    found = diff(tmp_path, "A->B.topics = a\ntopics = b\n", "A->B.topics = a\ntopics = c\n")
    assert found.changed == ()
    assert said(found.idle, tmp_path) == ["mm2.properties:6 topics = c  (was b)"]


def test_one_line_of_a_cluster_is_one_change_of_each_flow(tmp_path: Path) -> None:
    new = CLUSTERS.replace("a:9092", "a1:9092, a2:9092")
    found = compare(read(tmp_path), read(tmp_path, base=new))
    for name in ("A->B", "B->A"):
        assert said(flow(found, name).changes, tmp_path) == [
            "mm2.properties:2 A.bootstrap.servers = a1:9092, a2:9092  (was a:9092)"
        ]
    assert to_restart(found) == (Flow("A", "B"), Flow("B", "A"))


def test_a_flow_that_only_writes_heartbeats_has_no_topics(tmp_path: Path) -> None:
    found = diff(tmp_path, "topics = a\n", "topics = b\n")
    assert [str(changed.flow) for changed in found.changed] == ["A->B"]


def test_a_flow_that_is_switched_on_starts_again(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "B->A.enabled = true\nB->A.topics = x\n")
    assert flow(found, "B->A").reach is Reach.FLOW
    assert [change.key for change in flow(found, "B->A").changes] == ["B->A.enabled", "B->A.topics"]
    assert (found.appeared, found.idle) == ((), ())


def test_flows_that_come_and_go(tmp_path: Path) -> None:
    third = "clusters = A, B, C\nC.bootstrap.servers = c:1\nA->C.topics = x\nA->C.enabled = true\n"
    third += "emit.heartbeats.enabled = false\n"
    two = read(tmp_path, "emit.heartbeats.enabled = false\n")
    three = read(tmp_path, third)
    came, went = compare(two, three), compare(three, two)
    assert (came.appeared, came.vanished) == ((Flow("A", "C"),), ())
    assert (went.appeared, went.vanished) == ((), (Flow("A", "C"),))
    for found in (came, went):
        assert found.reach is Reach.FLOW
        assert (found.changed, found.idle) == ((), ())
        assert [change.key for change in found.node] == ["clusters"]


def test_heartbeats_switched_off_end_the_flow_that_only_writes_them(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "emit.heartbeats.enabled = false\n")
    assert found.vanished == (Flow("B", "A"),)
    assert flow(found).reach is Reach.RUNNING
    assert found.idle == ()


def test_flows_of_other_nodes_do_not_matter(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "B->A.enabled = true\n", clusters=("B",))
    assert (found.changed, found.appeared, found.reach) == ((), (), Reach.NOTHING)
    assert [change.key for change in found.idle] == ["B->A.enabled"]


@pytest.mark.parametrize(
    ("line", "reach"),
    [
        ("topics.exclude = x", Reach.RUNNING),
        ("groups = x", Reach.RUNNING),
        ("refresh.topics.interval.seconds = 1", Reach.RUNNING),
        ("offset.lag.max = 1", Reach.FLOW),
        ("offset.storage.segment.bytes = 1000000", Reach.RUNNING),
        ("replication.policy.separator = _", Reach.FLOW),
        ("B.session.timeout.ms = 12000", Reach.FLOW),
        ("mm2.offset.translation = compatible", Reach.FLOW),
        ("A.consumer.isolation.level = read_committed", Reach.FLOW),
        ("metric.names.formats = new", Reach.NOTHING),
    ],
)
def test_how_deep_a_key_of_a_flow_reaches(tmp_path: Path, line: str, reach: Reach) -> None:
    found = diff(tmp_path, "", f"{line}\n")
    assert flow(found).reach is found.reach is reach


@pytest.mark.parametrize(
    ("line", "reach"),
    [
        ("listeners = http://127.0.0.1:8083", Reach.NODE),
        ("spark.master = local[2,4]", Reach.NODE),
        ("mm2.lanes = 2", Reach.NODE),
        ("rest.advertised.port = 1", Reach.NODE),
        ("mm2.log.level = DEBUG", Reach.RUNNING),
    ],
)
def test_how_deep_a_key_of_the_node_reaches(tmp_path: Path, line: str, reach: Reach) -> None:
    for found in (diff(tmp_path, "", f"{line}\n"), diff(tmp_path, f"{line}\n", "")):
        assert [change.reach for change in found.node] == [reach]
        assert (found.reach, found.changed) == (reach, ())


def test_every_key_says_how_deep_it_reaches() -> None:
    with pytest.raises(TypeError, match="reach"):
        keys.key("new.key", 1, "A key that says nothing.")  # type: ignore[call-arg]
    assert {spec.reach for model in connectors.CONNECTORS for spec in keys.specs(model)} == {
        Reach.NOTHING,
        Reach.RUNNING,
        Reach.FLOW,
    }
    for model in (client_keys.ConsumerKeys, client_keys.ProducerKeys, worker.WorkerSettings):
        assert all(spec.reach in (Reach.RUNNING, Reach.FLOW) for spec in keys.specs(model))
    assert all(spec.local for spec in keys.specs(security_keys.SecurityKeys))
    assert not any(spec.local for spec in keys.specs(node_keys.OwnFlowSettings))


def test_secrets_are_hidden_and_noticed(tmp_path: Path) -> None:
    found = diff(tmp_path, PLAIN.format("sesame"), PLAIN.format("simsim"))
    for name in ("A->B", "B->A"):
        assert said(flow(found, name).changes, tmp_path) == [
            "mm2.properties:7 A.sasl.jaas.config = [hidden]  (was [hidden])"
        ]
        assert flow(found, name).reach is Reach.FLOW
    assert not any(secret in repr(found) for secret in ("sesame", "simsim"))


def test_a_secret_behind_a_reference(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("sesame")
    lines = (
        "config.providers = dir\n"
        "config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
    ) + PLAIN.format(f"${{dir:{tmp_path}:password}}")
    old = read(tmp_path, lines)
    (tmp_path / "password").write_text("simsim")
    found = compare(old, read(tmp_path, lines))
    assert flow(found).reach is Reach.FLOW
    assert said(flow(found).changes, tmp_path) == ["mm2.properties:9 A.sasl.jaas.config = [hidden]  (was [hidden])"]
    assert not any(secret in repr(found) for secret in ("sesame", "simsim"))


def test_a_secret_in_a_line_that_changes_nothing(tmp_path: Path) -> None:
    found = diff(tmp_path, "my.password = sesame\n", "my.password = simsim\n")
    assert said(found.idle, tmp_path) == ["mm2.properties:5 my.password = [hidden]  (was [hidden])"]


def test_what_no_client_is_told_reaches_nothing(tmp_path: Path) -> None:
    found = diff(tmp_path, "B.producer.compression.gzip.level = 1\n", "B.producer.compression.gzip.level = 2\n")
    assert reaches(flow(found).changes) == {"B.producer.compression.gzip.level": Reach.NOTHING}
    assert found.reach is Reach.NOTHING
    assert to_restart(found) == found.to_take_over() == ()
    gzip = "B.producer.compression.type = gzip\nB.producer.compression.gzip.level = {}\n"
    assert to_restart(diff(tmp_path, gzip.format(1), gzip.format(2))) == (Flow("A", "B"),)


def test_two_words_for_the_same_acks(tmp_path: Path) -> None:
    acks = "B.producer.acks = {}\n"
    assert diff(tmp_path, acks.format("all"), acks.format("-1")).changed == ()


def test_how_a_client_is_not_used_does_not_matter(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "A->B.target.consumer.fetch.min.bytes = 5\n")
    assert found.changed == ()
    assert [change.key for change in found.idle] == ["A->B.target.consumer.fetch.min.bytes"]


def test_new_contents_of_a_certificate(tmp_path: Path) -> None:
    lines = TLS.format(tmp_path)
    (tmp_path / "ca.pem").write_text(pem("CERTIFICATE", "AA"))
    old = read(tmp_path, lines)
    assert compare(old, read(tmp_path, lines)).says_the_same
    (tmp_path / "ca.pem").write_text(pem("CERTIFICATE", "BB"))
    found = compare(old, read(tmp_path, lines))
    assert said(flow(found).changes, tmp_path) == [
        f"mm2.properties:7 A.ssl.truststore.location = {tmp_path}/ca.pem  (the file has other contents)"
    ]
    assert to_restart(found) == (Flow("A", "B"), Flow("B", "A"))


def test_new_contents_of_a_key_and_another_file(tmp_path: Path) -> None:
    store = "A.ssl.keystore.type = PEM\nA.ssl.keystore.location = {}/{}.pem\n"
    (tmp_path / "ca.pem").write_text(pem("CERTIFICATE", "AA"))
    (tmp_path / "me.pem").write_text(pem("CERTIFICATE", "CC") + pem("PRIVATE KEY", "sesame"))
    (tmp_path / "you.pem").write_text(pem("CERTIFICATE", "DD") + pem("PRIVATE KEY", "simsim"))
    old = read(tmp_path, TLS.format(tmp_path) + store.format(tmp_path, "me"))
    other = compare(old, read(tmp_path, TLS.format(tmp_path) + store.format(tmp_path, "you")))
    (tmp_path / "me.pem").write_text(pem("CERTIFICATE", "CC") + pem("PRIVATE KEY", "simsim"))
    renewed = compare(old, read(tmp_path, TLS.format(tmp_path) + store.format(tmp_path, "me")))
    assert said(flow(other).changes, tmp_path) == [
        f"mm2.properties:9 A.ssl.keystore.location = {tmp_path}/you.pem  (was {tmp_path}/me.pem)"
    ]
    assert [(change.key, change.content) for change in flow(renewed).changes] == [("A.ssl.keystore.location", True)]
    assert not any(secret in repr((other, renewed)) for secret in ("sesame", "simsim"))


def test_what_classes_of_a_users_own_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reload_acme.py").write_text(
        "from mm2.core.plugins import TopicFilter\nfrom mm2.core.policies import DefaultReplicationPolicy\n"
        "class Some(TopicFilter):\n    def should_replicate_topic(self, topic): return True\n"
        "class Names(DefaultReplicationPolicy): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    word = "A->B.acme.word = {}\n"
    chosen = "A->B.topic.filter.class = reload_acme:Some\n"
    named = "A->B.replication.policy.class = reload_acme:Names\n"
    for lines, reach in ((chosen, Reach.RUNNING), (named, Reach.FLOW), (chosen + named, Reach.FLOW)):
        found = diff(tmp_path, lines + word.format(1), lines + word.format(2))
        assert reaches(flow(found).changes) == {"A->B.acme.word": reach}
    nobody = diff(tmp_path, word.format(1), word.format(2))
    assert (nobody.changed, [change.key for change in nobody.idle]) == ((), ["A->B.acme.word"])


def test_long_lists_say_what_came_and_went(tmp_path: Path) -> None:
    many = [f"a-topic-with-a-name-{number}" for number in range(30)]
    line = "topics = {}\n"
    found = diff(tmp_path, line.format(",".join(many)), line.format(",".join([*many[1:], "new", "newer"])))
    assert said(flow(found).changes, tmp_path) == [
        "mm2.properties:5 topics  (now also new, newer; without a-topic-with-a-name-0)"
    ]
    found = diff(tmp_path, line.format(",".join(many)), line.format(",".join(reversed(many))))
    assert said(flow(found).changes, tmp_path) == ["mm2.properties:5 topics  (in another order)"]
    found = diff(tmp_path, line.format(",".join(many)), "")
    assert said(flow(found).changes, tmp_path) == [
        f"mm2.properties: topics  (now also .*; without {', '.join(many)[:120]}…)"
    ]
