from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from mm2.config.clients import client_keys
from mm2.config.keys import connector_keys, declaration, node_keys, worker_keys
from mm2.config.keys.update_mode import UpdateMode
from mm2.config.reload.changes import FileDiff
from mm2.config.reload.comparison import compare
from mm2.config.reload.sources import named_files
from mm2.config.security import security_keys
from mm2.core.naming.names import Flow
from mm2.core.settings.zookeeper import ZooKeeperSettings
from mm2.node.reload.file_follower import in_force
from tests.unit.config.files import CLUSTERS
from tests.unit.config.readings import change_lines, diff, flow, read, update_modes
from tests.unit.config.security.oauth.lines import OAUTH, RSA, jwt
from tests.unit.config.security.oauth.lines import pem as private_key
from tests.unit.config.security.tls.formats.golden import STORES
from tests.unit.config.security.tls.issued import issue

PLAIN = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = "
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{}";\n'
)
OTHER_RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
TLS = "A.security.protocol = SSL\nA.ssl.truststore.type = PEM\nA.ssl.truststore.location = {}/ca.pem\n"


def to_restart(found: FileDiff) -> tuple[Flow, ...]:
    """Return the flows that have to drain and restart."""
    return tuple(one.flow for one in found.changed if one.update_mode is UpdateMode.FLOW)


def test_unchanged_file(tmp_path: Path) -> None:
    found = diff(tmp_path, "topics = a\n", "topics = a\n")
    assert found.says_the_same
    assert found.update_mode is UpdateMode.NOTHING


def test_comments_order_and_spaces_change_nothing(tmp_path: Path) -> None:
    found = diff(tmp_path, "topics = a\ntasks.max = 4\n", "# why\n\ntasks.max=4\ntopics: a\n")
    assert found.says_the_same


def test_equivalent_values_change_nothing(tmp_path: Path) -> None:
    found = diff(tmp_path, "topics = a,b\ntasks.max = 4\n", "topics = a, b\ntasks.max = +4\n")
    assert (found.update_mode, found.changed, found.node) == (UpdateMode.NOTHING, (), ())
    assert change_lines(found.idle, tmp_path) == [
        "mm2.properties:5: topics = a, b (was a,b)",
        "mm2.properties:6: tasks.max = +4 (was 4)",
    ]


def test_changed_key_of_a_flow(tmp_path: Path) -> None:
    found = diff(tmp_path, "A->B.tasks.max = 4\n", "\nA->B.tasks.max = 8\n")
    assert found.changed == (flow(found),)
    assert change_lines(flow(found).changes, tmp_path) == ["mm2.properties:6: A->B.tasks.max = 8 (was 4)"]
    assert found.update_mode is flow(found).update_mode is UpdateMode.RUNNING
    assert found.to_take_over() == (Flow("A", "B"),)
    assert to_restart(found) == ()


def test_added_and_removed_key(tmp_path: Path) -> None:
    found = diff(tmp_path, "A->B.tasks.max = 4\nA.client.id = x\n", "topics = orders\n")
    assert change_lines(flow(found).changes, tmp_path) == [
        "mm2.properties:5: topics = orders (was .*)",
        "mm2.properties: A->B.tasks.max removed, default 1 (was 4)",
    ]
    found = diff(tmp_path, "B.client.id = x\n", "B.producer.compression.type = zstd\n")
    assert change_lines(flow(found).changes, tmp_path) == [
        "mm2.properties:5: B.producer.compression.type = zstd (was not set)",
        "mm2.properties: B.client.id removed, default A->B (was x)",
    ]
    found = diff(tmp_path, "A.consumer.client.id = x\n", "")
    assert change_lines(flow(found).changes, tmp_path) == [
        "mm2.properties: A.consumer.client.id removed (was x)",
    ]


def test_moved_line(tmp_path: Path) -> None:
    found = diff(tmp_path, "tasks.max = 4\n", "A->B.tasks.max = 5\n")
    assert change_lines(flow(found).changes, tmp_path) == ["mm2.properties:5: A->B.tasks.max = 5 (was 4)"]
    found = diff(tmp_path, "tasks.max = 4\n", "A->B.tasks.max = 4\n")
    assert (found.changed, found.update_mode) == ((), UpdateMode.NOTHING)
    assert [change.key for change in found.idle] == ["A->B.tasks.max", "tasks.max"]


def test_overridden_line(tmp_path: Path) -> None:
    found = diff(tmp_path, "A->B.topics = a\ntopics = b\n", "A->B.topics = a\ntopics = c\n")
    assert found.changed == ()
    assert change_lines(found.idle, tmp_path) == ["mm2.properties:6: topics = c (was b)"]


def test_line_of_a_cluster_is_one_change_per_flow(tmp_path: Path) -> None:
    new = CLUSTERS.replace("a:9092", "a1:9092, a2:9092")
    found = compare(read(tmp_path), read(tmp_path, base=new))
    for name in ("A->B", "B->A"):
        assert change_lines(flow(found, name).changes, tmp_path) == [
            "mm2.properties:2: A.bootstrap.servers = a1:9092, a2:9092 (was a:9092)"
        ]
    assert to_restart(found) == (Flow("A", "B"), Flow("B", "A"))


def test_topics_do_not_affect_heartbeat_only_flows(tmp_path: Path) -> None:
    found = diff(tmp_path, "topics = a\n", "topics = b\n")
    assert [str(changed.flow) for changed in found.changed] == ["A->B"]


def test_enabled_flow_restarts(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "B->A.enabled = true\nB->A.topics = x\n")
    assert flow(found, "B->A").update_mode is UpdateMode.FLOW
    assert [change.key for change in flow(found, "B->A").changes] == ["B->A.enabled", "B->A.topics"]
    assert (found.appeared, found.idle) == ((), ())


def test_added_and_removed_flows(tmp_path: Path) -> None:
    third = "clusters = A, B, C\nC.bootstrap.servers = c:1\nA->C.topics = x\nA->C.enabled = true\n"
    third += "emit.heartbeats.enabled = false\n"
    two = read(tmp_path, "emit.heartbeats.enabled = false\n")
    three = read(tmp_path, third)
    came, went = compare(two, three), compare(three, two)
    assert (came.appeared, came.vanished) == ((Flow("A", "C"),), ())
    assert (went.appeared, went.vanished) == ((), (Flow("A", "C"),))
    for found in (came, went):
        assert found.update_mode is UpdateMode.FLOW
        assert (found.changed, found.idle) == ((), ())
        assert [change.key for change in found.node] == ["clusters"]


def test_disabling_heartbeats_removes_heartbeat_only_flows(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "emit.heartbeats.enabled = false\n")
    assert found.vanished == (Flow("B", "A"),)
    assert flow(found).update_mode is UpdateMode.RUNNING
    assert found.idle == ()


def test_flows_of_other_nodes_do_not_matter(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "B->A.enabled = true\n", clusters=("B",))
    assert (found.changed, found.appeared, found.update_mode) == ((), (), UpdateMode.NOTHING)
    assert [change.key for change in found.idle] == ["B->A.enabled"]


@pytest.mark.parametrize(
    ("line", "update_mode"),
    [
        ("topics.exclude = x", UpdateMode.RUNNING),
        ("groups = x", UpdateMode.RUNNING),
        ("mm2.max.bytes.per.second = 1000000", UpdateMode.RUNNING),
        ("refresh.topics.interval.seconds = 1", UpdateMode.RUNNING),
        ("offset.lag.max = 1", UpdateMode.FLOW),
        ("offset.storage.segment.bytes = 1000000", UpdateMode.RUNNING),
        ("replication.policy.separator = _", UpdateMode.FLOW),
        ("B.session.timeout.ms = 12000", UpdateMode.FLOW),
        ("mm2.offset.translation = compatible", UpdateMode.FLOW),
        ("A.consumer.isolation.level = read_committed", UpdateMode.FLOW),
        ("metric.names.formats = new", UpdateMode.NOTHING),
    ],
)
def test_update_mode_of_flow_keys(tmp_path: Path, line: str, update_mode: UpdateMode) -> None:
    found = diff(tmp_path, "", f"{line}\n")
    assert flow(found).update_mode is found.update_mode is update_mode


@pytest.mark.parametrize(
    ("line", "update_mode"),
    [
        ("listeners = http://127.0.0.1:8083", UpdateMode.NODE),
        ("spark.master = local[2,4]", UpdateMode.NODE),
        ("mm2.lanes = 2", UpdateMode.NODE),
        ("rest.advertised.port = 1", UpdateMode.NODE),
        ("mm2.log.level = DEBUG", UpdateMode.RUNNING),
    ],
)
def test_update_mode_of_node_keys(tmp_path: Path, line: str, update_mode: UpdateMode) -> None:
    for found in (diff(tmp_path, "", f"{line}\n"), diff(tmp_path, f"{line}\n", "")):
        assert [change.update_mode for change in found.node] == [update_mode]
        assert (found.update_mode, found.changed) == (update_mode, ())


def test_every_key_declares_its_update_mode() -> None:
    with pytest.raises(TypeError, match="update_mode"):
        declaration.key("new.key", 1, "A key without an update mode.")  # type: ignore[call-arg]
    assert {spec.update_mode for model in connector_keys.CONNECTORS for spec in declaration.specs(model)} == {
        UpdateMode.NOTHING,
        UpdateMode.RUNNING,
        UpdateMode.FLOW,
    }
    for model in (client_keys.ConsumerKeys, client_keys.ProducerKeys, worker_keys.WorkerSettings):
        assert all(spec.update_mode in (UpdateMode.RUNNING, UpdateMode.FLOW) for spec in declaration.specs(model))
    assert all(spec.local for model in security_keys.MODELS for spec in declaration.specs(model))
    assert not any(spec.local for spec in declaration.specs(node_keys.OwnFlowSettings))


def test_changed_secrets_are_reported_and_hidden(tmp_path: Path) -> None:
    found = diff(tmp_path, PLAIN.format("sesame"), PLAIN.format("simsim"))
    for name in ("A->B", "B->A"):
        assert change_lines(flow(found, name).changes, tmp_path) == [
            "mm2.properties:7: A.sasl.jaas.config = [hidden] (was [hidden])"
        ]
        assert flow(found, name).update_mode is UpdateMode.FLOW
    assert not any(secret in repr(found) for secret in ("sesame", "simsim"))


def test_changed_secret_of_a_reference(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("sesame")
    lines = (
        "config.providers = dir\n"
        "config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
    ) + PLAIN.format(f"${{dir:{tmp_path}:password}}")
    old = read(tmp_path, lines)
    (tmp_path / "password").write_text("simsim")
    found = compare(old, read(tmp_path, lines))
    assert flow(found).update_mode is UpdateMode.FLOW
    assert change_lines(flow(found).changes, tmp_path) == [
        "mm2.properties:9: A.sasl.jaas.config = [hidden] (its config provider returns another value)"
    ]
    assert not any(secret in repr(found) for secret in ("sesame", "simsim"))


def test_changed_secret_without_effect(tmp_path: Path) -> None:
    found = diff(tmp_path, "my.password = sesame\n", "my.password = simsim\n")
    assert change_lines(found.idle, tmp_path) == ["mm2.properties:5: my.password = [hidden] (was [hidden])"]


def test_unused_client_keys_change_nothing(tmp_path: Path) -> None:
    found = diff(tmp_path, "B.producer.compression.gzip.level = 1\n", "B.producer.compression.gzip.level = 2\n")
    assert update_modes(flow(found).changes) == {"B.producer.compression.gzip.level": UpdateMode.NOTHING}
    assert found.update_mode is UpdateMode.NOTHING
    assert to_restart(found) == found.to_take_over() == ()
    gzip = "B.producer.compression.type = gzip\nB.producer.compression.gzip.level = {}\n"
    assert to_restart(diff(tmp_path, gzip.format(1), gzip.format(2))) == (Flow("A", "B"),)


def test_equivalent_acks(tmp_path: Path) -> None:
    acks = "B.producer.acks = {}\n"
    assert diff(tmp_path, acks.format("all"), acks.format("-1")).changed == ()


def test_keys_of_unused_clients_change_nothing(tmp_path: Path) -> None:
    found = diff(tmp_path, "", "A->B.target.consumer.fetch.min.bytes = 5\n")
    assert found.changed == ()
    assert [change.key for change in found.idle] == ["A->B.target.consumer.fetch.min.bytes"]


def test_new_contents_of_a_certificate(tmp_path: Path) -> None:
    lines = TLS.format(tmp_path)
    (tmp_path / "ca.pem").write_text(issue("a")[0])
    old = read(tmp_path, lines)
    assert compare(old, read(tmp_path, lines)).says_the_same
    (tmp_path / "ca.pem").write_text(issue("a")[0])
    found = compare(old, read(tmp_path, lines))
    assert change_lines(flow(found).changes, tmp_path) == [
        f"mm2.properties:7: A.ssl.truststore.location = {tmp_path}/ca.pem (the content of the file changed)"
    ]
    assert to_restart(found) == (Flow("A", "B"), Flow("B", "A"))


def test_new_contents_of_a_key_and_a_different_file(tmp_path: Path) -> None:
    store = "A.ssl.keystore.type = PEM\nA.ssl.keystore.location = {}/{}.pem\n"
    me, again, you = issue("me"), issue("me"), issue("you")
    (tmp_path / "ca.pem").write_text(me[0])
    (tmp_path / "me.pem").write_text("".join(me))
    (tmp_path / "you.pem").write_text("".join(you))
    old = read(tmp_path, TLS.format(tmp_path) + store.format(tmp_path, "me"))
    other = compare(old, read(tmp_path, TLS.format(tmp_path) + store.format(tmp_path, "you")))
    (tmp_path / "me.pem").write_text("".join(again))
    renewed = compare(old, read(tmp_path, TLS.format(tmp_path) + store.format(tmp_path, "me")))
    assert change_lines(flow(other).changes, tmp_path) == [
        f"mm2.properties:9: A.ssl.keystore.location = {tmp_path}/you.pem (was {tmp_path}/me.pem)"
    ]
    assert [(change.key, change.content) for change in flow(renewed).changes] == [("A.ssl.keystore.location", True)]
    assert "PRIVATE KEY" not in repr((other, renewed))


def test_new_contents_of_a_store_of_zookeeper(tmp_path: Path) -> None:
    lines = "mm2.election = zookeeper\nmm2.zookeeper.connect = zk\nmm2.zookeeper.ssl.client.enable = true\n"
    lines += f"mm2.zookeeper.ssl.truststore.location = {tmp_path}/trust\n"
    (tmp_path / "trust").write_bytes((STORES / "trust.jks").read_bytes())
    old = read(tmp_path, lines)
    (tmp_path / "trust").write_bytes((STORES / "mixed.jks").read_bytes())
    found = compare(old, read(tmp_path, lines))
    assert change_lines(flow(found).changes, tmp_path) == [
        f"mm2.properties:8: mm2.zookeeper.ssl.truststore.location = {tmp_path}/trust (the content of the file changed)"
    ]
    assert to_restart(found)
    (restarted, *_) = in_force(old, read(tmp_path, lines)).flows
    assert isinstance(restarted.election, ZooKeeperSettings)
    assert restarted.election.tls is not None
    assert restarted.election.tls.ca_pem is not None
    assert restarted.election.tls.ca_pem.count("BEGIN CERTIFICATE") == 2


def test_a_store_of_another_type_with_the_same_content_changes_nothing(tmp_path: Path) -> None:
    lines = "A.security.protocol = SSL\nA.ssl.truststore.type = {}\nA.ssl.truststore.location = {}\n"
    found = diff(
        tmp_path,
        lines.format("JKS", STORES / "trust.jks"),
        lines.format("JCEKS", STORES / "trust.jceks"),
    )
    assert set(update_modes(flow(found).changes).values()) == {UpdateMode.NOTHING}


def test_update_mode_of_user_class_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reload_acme.py").write_text(
        "from mm2.core.plugins import TopicFilter\nfrom mm2.core.policies import DefaultReplicationPolicy\n"
        "class Some(TopicFilter):\n    def should_replicate_topic(self, topic): return True\n"
        "class Names(DefaultReplicationPolicy): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    word = "A->B.acme.word = {}\n"
    chosen = "A->B.topic.filter.class = reload_acme:Some\n"
    named = "A->B.replication.policy.class = reload_acme:Names\n"
    for lines, update_mode in (
        (chosen, UpdateMode.RUNNING),
        (named, UpdateMode.FLOW),
        (chosen + named, UpdateMode.FLOW),
    ):
        found = diff(tmp_path, lines + word.format(1), lines + word.format(2))
        assert update_modes(flow(found).changes) == {"A->B.acme.word": update_mode}
    unused = diff(tmp_path, word.format(1), word.format(2))
    assert (unused.changed, [change.key for change in unused.idle]) == ((), ["A->B.acme.word"])


def test_long_lists_are_shown_as_differences(tmp_path: Path) -> None:
    many = [f"a-topic-with-a-name-{number}" for number in range(30)]
    line = "topics = {}\n"
    found = diff(tmp_path, line.format(",".join(many)), line.format(",".join([*many[1:], "new", "newer"])))
    assert change_lines(flow(found).changes, tmp_path) == [
        "mm2.properties:5: topics (added new, newer; removed a-topic-with-a-name-0)"
    ]
    found = diff(tmp_path, line.format(",".join(many)), line.format(",".join(reversed(many))))
    assert change_lines(flow(found).changes, tmp_path) == ["mm2.properties:5: topics (order changed)"]
    found = diff(tmp_path, line.format(",".join(many)), "")
    assert change_lines(flow(found).changes, tmp_path) == [
        f"mm2.properties: topics (added .*; removed {', '.join(many)[:120]}…)"
    ]


@pytest.mark.parametrize(
    ("key", "before", "after", "is_read_again"),
    [
        ("sasl.oauthbearer.token.endpoint.url", jwt(n=1), jwt(n=2), True),
        ("sasl.oauthbearer.assertion.file", jwt(n=1), jwt(n=2), True),
        ("sasl.oauthbearer.assertion.private.key.file", private_key(RSA), private_key(OTHER_RSA), False),
        ("sasl.oauthbearer.assertion.template.file", "{}", '{"header": {}}', False),
    ],
)
def test_new_contents_of_the_files_of_oauth(
    tmp_path: Path, key: str, before: str, after: str, is_read_again: bool
) -> None:
    (tmp_path / "key").write_text(private_key(RSA))
    file = tmp_path / "file"
    keys = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.oauthbearer.assertion.claim.iss": "mm2",
        "sasl.oauthbearer.assertion.private.key.file": str(tmp_path / "key"),
        key: f"file:{file}" if key.endswith("url") else str(file),
    }
    lines = "".join(f"A.{name} = {value}\n" for name, value in keys.items())
    file.write_text(before)
    old = read(tmp_path, lines)
    assert file in named_files(old.file, tmp_path)
    file.write_text(after)
    now = read(tmp_path, lines)
    found = compare(old, now)
    contents = [list(reading.settings.credentials.values()) for reading in (old, now)]
    if is_read_again:
        assert found.says_the_same
        assert contents == [[b64encode(text.encode()).decode()] for text in (before, after)]
    else:
        assert [(change.key, change.content) for change in flow(found).changes] == [(f"A.{key}", True)]
        assert contents == [[], []]
    assert not any(text in repr(found) for text in (before, after) if len(text) > 20)
