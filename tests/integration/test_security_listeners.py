"""Every kind of secured listener, from the lines of mm2.properties to records that arrived or a sentence that helps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2.config.flow_clients import ClientRole
from mm2.core.client_settings import SaslMechanism, SecurityProtocol
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import AuthenticationRefused, ClusterError, ConnectionLost, SecuritySettingsInvalid, TlsRefused
from tests.integration.security import (
    ALICE,
    KEY_PASSWORD,
    PASSWORD,
    Access,
    copy_with,
    flow_of,
    inline,
    keystore_file,
    keystore_inline,
    plainly,
    sasl,
    sasl_tls,
    tls,
    two_clusters,
)
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.listeners import Authority, Listener
from tests.lab.records import plain, write
from tests.lab.verify import compare

PLAIN, SCRAM_256, SCRAM_512 = SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512
STRANGER = Authority()  # signed for nobody here but listener ELSEWHERE, as another host's


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    """One broker with listeners of every kind."""
    elsewhere = scratch.directory("elsewhere") / "keystore.pem"
    pems = STRANGER.client("elsewhere")
    elsewhere.write_text(pems.key + pems.certificate)
    with KafkaCluster(
        "secured",
        users={ALICE: PASSWORD},
        listeners=(
            Listener(protocol=SecurityProtocol.SSL),
            Listener(protocol=SecurityProtocol.SSL, client_certificates=True, name="MUTUAL"),
            Listener(protocol=SecurityProtocol.SSL, name="ELSEWHERE"),
            Listener(protocol=SecurityProtocol.SASL_SSL, mechanisms=(PLAIN, SCRAM_256, SCRAM_512)),
            Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(PLAIN, SCRAM_256)),
        ),
        properties={"listener.name.elsewhere.ssl.keystore.location": str(elsewhere)},
    ) as cluster:
        yield cluster


WAYS_IN: dict[str, Access] = {
    "TLS, trust store in a file": tls,
    "TLS, trusted certificate inline": inline,
    "TLS, host name not checked": lambda c: {
        **tls(c, "ELSEWHERE", trusted=STRANGER.ca_pem),
        "ssl.endpoint.identification.algorithm": "",
    },
    "TLS 1.2 alone, one suite": lambda c: {
        **tls(c),
        "ssl.enabled.protocols": "TLSv1.2",
        "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    },
    "mutual TLS, key in a file": lambda c: {**tls(c, "MUTUAL"), **keystore_file(c.authority.client("bob"))},
    "mutual TLS, encrypted key in a file": lambda c: {
        **tls(c, "MUTUAL"),
        **keystore_file(c.authority.client("bob"), KEY_PASSWORD),
    },
    "mutual TLS, all inline": lambda c: {**inline(c, "MUTUAL"), **keystore_inline(c.authority.client("bob"))},
    "mutual TLS, encrypted key inline": lambda c: {
        **inline(c, "MUTUAL"),
        **keystore_inline(c.authority.client("bob"), KEY_PASSWORD),
    },
    "SASL_SSL SCRAM-SHA-256": lambda c: sasl_tls(c, SCRAM_256),
    "SASL_SSL SCRAM-SHA-512": lambda c: sasl_tls(c, SCRAM_512),
    "SASL_SSL PLAIN": lambda c: sasl_tls(c, PLAIN),
    "SASL_PLAINTEXT PLAIN": lambda c: sasl(c, PLAIN),
    "SASL_PLAINTEXT SCRAM-SHA-256": lambda c: sasl(c, SCRAM_256),
}


@pytest.mark.parametrize("access", WAYS_IN.values(), ids=WAYS_IN)
async def test_records_arrive(secured: KafkaCluster, access: Access) -> None:
    """Read with the source's consumer of the file and written with the target's producer; judged from behind."""
    topic = secured.create_topic(unique_name("orders"), 2)
    secured.create_topic(f"A.{topic}", 2)
    write(secured.bootstrap, topic, plain(200, partitions=2), codec="lz4")
    lines = access(secured)
    await copy_with(flow_of(two_clusters(lines, lines)), topic)
    verdict = compare(read_topic(secured.bootstrap, topic), read_topic(secured.bootstrap, f"A.{topic}"))
    assert verdict.exact, str(verdict)
    assert verdict.records == 200


WAYS_OUT: dict[str, tuple[Access, type[ClusterError], tuple[str, ...]]] = {
    "wrong password, SCRAM": (
        lambda c: sasl_tls(c, SCRAM_512, password="not it"),
        AuthenticationRefused,
        ("SASL SCRAM-SHA-512: user alice refused", "check sasl.jaas.config of A"),
    ),
    "wrong password, PLAIN": (
        lambda c: sasl(c, PLAIN, password="not it"),
        AuthenticationRefused,
        ("SASL PLAIN: user alice refused", "check sasl.jaas.config of A"),
    ),
    "unknown user": (
        lambda c: sasl_tls(c, SCRAM_256, user="mallory"),
        AuthenticationRefused,
        ("user mallory refused", "check sasl.jaas.config of A"),
    ),
    "mechanism the broker has not": (
        lambda c: sasl(c, SCRAM_512),
        AuthenticationRefused,
        ("mechanism SCRAM-SHA-512 is not enabled on the broker", "check sasl.mechanism of A"),
    ),
    "certificate of an unknown authority": (
        lambda c: tls(c, trusted=STRANGER.ca_pem),
        TlsRefused,
        ("the broker's certificate is not trusted", "check ssl.truststore.* of A"),
    ),
    "no trust store: the system's": (
        lambda c: {**plainly(c, "SSL"), "security.protocol": "SSL"},
        TlsRefused,
        ("the broker's certificate is not trusted", "check ssl.truststore.* of A"),
    ),
    "certificate of another host": (
        lambda c: tls(c, "ELSEWHERE", trusted=STRANGER.ca_pem),
        TlsRefused,
        ("the broker's certificate is for another host", "bootstrap.servers of A"),
    ),
    "no certificate of ours": (
        lambda c: tls(c, "MUTUAL"),
        TlsRefused,
        ("refuses our certificate, or asks for one", "check ssl.keystore.* of A"),
    ),
    "our certificate of an authority the broker does not know": (
        lambda c: {**tls(c, "MUTUAL"), **keystore_file(STRANGER.client("eve"))},
        TlsRefused,
        ("refuses our certificate", "check ssl.keystore.* of A"),
    ),
    "plain client, TLS port": (
        lambda c: plainly(c, "SSL"),
        TlsRefused,
        ("the port speaks TLS, we do not", "check security.protocol of A (PLAINTEXT)"),
    ),
    "TLS client, plain port": (
        lambda c: tls(c, "PLAINTEXT"),
        ConnectionLost,
        ("is it a port without TLS?", "security.protocol of A (SSL)"),
    ),
    "plain client, SASL port": (
        lambda c: plainly(c, "SASL_PLAINTEXT"),
        ConnectionLost,
        ("are TLS or SASL expected on this port?", "security.protocol of A (PLAINTEXT)"),
    ),
    "SASL client, port without SASL": (
        lambda c: {**sasl(c, PLAIN), **plainly(c, "PLAINTEXT")},
        AuthenticationRefused,
        ("the port does not use SASL", "check security.protocol of A (SASL_PLAINTEXT)"),
    ),
}


@pytest.mark.parametrize(("access", "error", "words"), WAYS_OUT.values(), ids=WAYS_OUT)
async def test_a_sentence_says_what_to_look_at(
    secured: KafkaCluster, access: Access, error: type[ClusterError], words: tuple[str, ...]
) -> None:
    flow = flow_of(two_clusters(access(secured), plainly(secured, "PLAINTEXT")))
    async with Cluster(flow.clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)) as cluster:
        with pytest.raises(ClusterError) as refused:
            await cluster.metadata([])
    assert type(refused.value) is error
    assert refused.value.retriable, "a node goes on trying"
    sentence = str(refused.value)
    assert sentence.startswith("cluster A: ")
    for part in words:
        assert part in sentence
    assert "not it" not in sentence
    assert PASSWORD not in sentence


async def test_a_key_password_that_does_not_fit(secured: KafkaCluster) -> None:
    """Only an attempt to decrypt the key tells, so it is the client that says it, before it connects."""
    lines = {**tls(secured, "MUTUAL"), **keystore_file(secured.authority.client("bob"), KEY_PASSWORD)}
    lines["ssl.key.password"] = "wrong one"
    flow = flow_of(two_clusters(lines, plainly(secured, "PLAINTEXT")))
    with pytest.raises(SecuritySettingsInvalid) as refused:
        async with Cluster(flow.clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)):
            pass
    assert str(refused.value).startswith("cluster A: ")
    assert "cannot be decrypted: check ssl.key.password" in str(refused.value)
    assert "wrong one" not in str(refused.value)


async def test_passwords_come_through_config_providers(
    secured: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kubernetes mounts them, from another file of properties, and from the environment."""
    topic = secured.create_topic(unique_name("orders"))
    secured.create_topic(f"A.{topic}")
    write(secured.bootstrap, topic, plain(10))
    lines = sasl_tls(secured, SCRAM_256)
    jaas = lines["sasl.jaas.config"]
    (tmp_path / "ca.pem").write_text(secured.authority.ca_pem)
    (tmp_path / "secrets.properties").write_text(f"alice = {PASSWORD}\n")
    monkeypatch.setenv("MM2_TEST_JAAS", jaas)
    package = "org.apache.kafka.common.config.provider"
    by_dir = {key: value for key, value in lines.items() if key != "ssl.truststore.location"}
    flow = flow_of(
        two_clusters(
            {
                **by_dir,
                "ssl.truststore.certificates": f"${{dir:{tmp_path}:ca.pem}}",
                "sasl.jaas.config": jaas.replace(PASSWORD, f"${{file:{tmp_path}/secrets.properties:alice}}"),
            },
            {**lines, "sasl.jaas.config": "${env:MM2_TEST_JAAS}"},
            **{
                "config.providers": "dir, file, env",
                "config.providers.dir.class": f"{package}.DirectoryConfigProvider",
                "config.providers.file.class": f"{package}.FileConfigProvider",
                "config.providers.env.class": f"{package}.EnvVarConfigProvider",
            },
        )
    )
    await copy_with(flow, topic)
    assert compare(read_topic(secured.bootstrap, topic), read_topic(secured.bootstrap, f"A.{topic}")).exact
