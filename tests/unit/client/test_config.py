from __future__ import annotations

from pathlib import Path

import pytest

from mm2.client import ConfigInvalid, DefaultReplicationPolicy, IdentityReplicationPolicy, MirrorClientConfig
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from tests.unit.config.security.tls.formats.golden import STORES
from tests.unit.core.test_policies import SuffixPolicy

JAVA = "org.apache.kafka.connect.mirror"
SERVERS = {"bootstrap.servers": "b1:9092, b2:9092"}
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="pw-{}";'
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": LOGIN.format("ann", "ann")}


def read(properties: dict[str, str]) -> MirrorClientConfig:
    return MirrorClientConfig.from_properties(properties)


def problems(properties: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigInvalid) as caught:
        read(properties)
    return caught.value.problems


def test_bootstrap_servers_are_sufficient() -> None:
    config = read(SERVERS)
    assert config.client.bootstrap_servers == ("b1:9092", "b2:9092")
    assert config.client.security_protocol is SecurityProtocol.PLAINTEXT
    assert config.client.client_id == "mm2-client"
    assert config.consumer is None
    assert config.policy == DefaultReplicationPolicy()


def test_config_objects_and_properties() -> None:
    config = read(SERVERS)
    assert MirrorClientConfig.of(config) is config
    assert MirrorClientConfig.of(SERVERS) == config


def test_security_properties() -> None:
    client = read(SERVERS | SASL).client
    assert client.security_protocol is SecurityProtocol.SASL_SSL
    assert isinstance(client.sasl, PasswordLogin)
    assert (client.sasl.mechanism, client.sasl.username, client.sasl.password) == (SaslMechanism.PLAIN, "ann", "pw-ann")
    assert client.tls.check_hostname


def test_properties_of_one_client() -> None:
    config = read(
        SERVERS
        | SASL
        | {
            "admin.sasl.jaas.config": LOGIN.format("lister", "l"),
            "consumer.sasl.jaas.config": LOGIN.format("reader", "r"),
            "producer.sasl.jaas.config": LOGIN.format("writer", "w"),
            "consumer.bootstrap.servers": "b3:9092",
            "consumer.max.poll.records": "5",
        }
    )
    assert isinstance(config.client.sasl, PasswordLogin)
    assert config.client.sasl.username == "lister"
    assert config.consumer is not None
    assert isinstance(config.consumer.sasl, PasswordLogin)
    assert config.consumer.sasl.username == "reader"
    assert config.client.bootstrap_servers == ("b1:9092", "b2:9092")
    assert config.consumer.bootstrap_servers == ("b3:9092",)


def test_bootstrap_servers_with_client_prefixes() -> None:
    config = read({"admin.bootstrap.servers": "b:1", "consumer.bootstrap.servers": "b:1"})
    assert config.client.bootstrap_servers == ("b:1",)
    assert config.consumer is None


def test_client_id_and_timeouts() -> None:
    client = read(SERVERS | {"client.id": "failover", "request.timeout.ms": "5000"}).client
    assert client.client_id == "failover|mm2-client"
    assert client.request_timeout_ms == 5_000


def test_policy_by_name() -> None:
    separated = {"replication.policy.separator": "_", "replication.policy.internal.topic.separator.enabled": "false"}
    assert read(SERVERS | separated).policy == DefaultReplicationPolicy(separator="_", internal_separator_enabled=False)
    identity = {"replication.policy.class": f"{JAVA}.IdentityReplicationPolicy"}
    assert read(SERVERS | identity).policy == IdentityReplicationPolicy(source_alias=None)
    assert read(SERVERS | identity | {"source.cluster.alias": "A"}).policy == IdentityReplicationPolicy(
        source_alias="A"
    )


def test_policy_as_an_object() -> None:
    policy = SuffixPolicy()
    config = MirrorClientConfig.from_properties(
        SERVERS | {"replication.policy.class": "com.example.Own"}, policy=policy
    )
    assert config.policy is policy


def test_policy_as_a_user_class() -> None:
    policy = read(SERVERS | {"replication.policy.class": "tests.unit.core.test_policies:SuffixPolicy"}).policy
    assert policy.topic_source("orders@A") == "A"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"


def test_all_problems_are_reported_without_secrets() -> None:
    found = problems(
        {
            "bootstrap.servers": "nonsense",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "geheim",
            "replication.policy.internal.topic.separator.enabled": "maybe",
        }
    )
    assert len(found) == 3
    assert any(
        one.startswith("properties: error: bootstrap.servers = nonsense: must be a comma-separated host:port list")
        for one in found
    )
    assert any("sasl.jaas.config = [hidden]" in one for one in found)
    assert any("separator.enabled = maybe" in one for one in found)
    assert "geheim" not in " ".join(found)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "properties: error: bootstrap.servers: missing, so no client can connect"),
        ({"bootstrap.servers": ""}, "must be a comma-separated host:port list"),
        (SERVERS | {"security.protocol": "TLS"}, "security.protocol = TLS"),
        (SERVERS | {"consumer.security.protocol": "TLS"}, "consumer.security.protocol = TLS"),
        (SERVERS | {"request.timeout.ms": "soon"}, "request.timeout.ms = soon"),
        (SERVERS | {"replication.policy.class": "com.example.Unknown"}, "replication.policy.class"),
    ],
)
def test_invalid_properties_are_rejected(properties: dict[str, str], message: str) -> None:
    (found,) = problems(properties)
    assert message in found


def test_unknown_properties_are_ignored() -> None:
    assert read(SERVERS | {"clusters": "A, B", "A->B.enabled": "true", "tasks.max": "many"}) == read(SERVERS)


FILE = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
security.protocol = SASL_PLAINTEXT
sasl.mechanism = PLAIN
A.sasl.jaas.config = ${file:/nowhere/a.properties:jaas}
B.sasl.jaas.config = ${env:B_JAAS}
B.consumer.sasl.jaas.config = ${env:B_READER_JAAS}
replication.policy.separator = _
config.providers = env, file
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("B_JAAS", LOGIN.format("bea", "b"))
    monkeypatch.setenv("B_READER_JAAS", LOGIN.format("reader", "r"))
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def test_cluster_of_a_file(file: Path) -> None:
    """The secret of A is not available on this machine, and B does not need it."""
    config = MirrorClientConfig.from_file(file, "B")
    assert config.client.alias == "B"
    assert config.client.bootstrap_servers == ("b:9092",)
    assert config.client.security_protocol is SecurityProtocol.SASL_PLAINTEXT
    assert isinstance(config.client.sasl, PasswordLogin)
    assert config.client.sasl.username == "bea"
    assert config.consumer is not None
    assert isinstance(config.consumer.sasl, PasswordLogin)
    assert config.consumer.sasl.username == "reader"
    assert config.policy == DefaultReplicationPolicy(separator="_")


def test_cluster_properties_override_unprefixed_properties(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters=A,B\nB.bootstrap.servers=b:1\nbootstrap.servers=x:1\nB.request.timeout.ms=7\n")
    client = MirrorClientConfig.from_file(str(path), "B").client
    assert (client.bootstrap_servers, client.request_timeout_ms) == (("b:1",), 7)


def test_problems_of_a_file_have_line_numbers(file: Path) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        MirrorClientConfig.from_file(file, "A")
    (found,) = caught.value.problems
    assert found.startswith(f"{file}:8: error: A.sasl.jaas.config = ")
    assert "cannot be resolved: /nowhere/a.properties cannot be read" in found


@pytest.mark.parametrize(
    ("content", "alias", "message"),
    [
        (None, "B", "does not exist"),
        (
            "clusters = A, B",
            "C",
            "1: error: clusters = A, B: does not contain cluster C (fix: use one of its clusters: A, B)",
        ),
        ("A.bootstrap.servers = a:9092", "A", "does not contain cluster A"),
        ("clusters = A, B", "B", "B.bootstrap.servers: missing"),
    ],
)
def test_incomplete_files_are_rejected(tmp_path: Path, content: str | None, alias: str, message: str) -> None:
    path = tmp_path / "mm2.properties"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigInvalid) as caught:
        MirrorClientConfig.from_file(path, alias)
    (found,) = caught.value.problems
    assert message in found


def test_key_stores_of_java() -> None:
    tls = read(
        {
            **SERVERS,
            "security.protocol": "SSL",
            "ssl.truststore.location": str(STORES / "trust.jks"),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(STORES / "identity.p12"),
            "ssl.keystore.password": "sesame",
        }
    ).client.tls
    assert tls.ca_pem == (STORES / "ca.pem").read_text()
    assert tls.certificate_pem == (STORES / "chain.pem").read_text()
