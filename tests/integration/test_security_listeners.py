"""All kinds of secured listeners, from the properties to copied records or a helpful error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2.config.clients.flow_clients import ClientRole
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import AuthenticationRefused, ClusterError, ConnectionLost, TlsRefused
from tests.integration.security import (
    ALICE,
    KEY_PASSWORD,
    PASSWORD,
    Access,
    address_only,
    copy_with,
    flow_of,
    inline,
    keystore_file,
    keystore_inline,
    sasl,
    sasl_tls,
    stores,
    tls,
    two_clusters,
)
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import read_topic
from tests.lab.key_stores import STORE_PASSWORD, write_trust_store
from tests.lab.listeners import Authority, Listener
from tests.lab.records import plain, write
from tests.lab.verify import compare

PLAIN, SCRAM_256, SCRAM_512 = SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512
STRANGER = Authority()  # an untrusted authority; it signed only the certificate of listener ELSEWHERE, for another host


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    """A broker with all kinds of listeners."""
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
    "mutual TLS, JKS": lambda c: stores(c, "JKS"),
    "mutual TLS, JKS, password of the key": lambda c: stores(c, "JKS", key_password=KEY_PASSWORD),
    "mutual TLS, JCEKS, password of the key": lambda c: stores(c, "JCEKS", key_password=KEY_PASSWORD),
    "mutual TLS, PKCS12": lambda c: stores(c, "PKCS12"),
    "mutual TLS, PKCS12 with the default type": lambda c: {
        **stores(c, "PKCS12"),
        "ssl.truststore.type": "JKS",
        "ssl.keystore.type": "JKS",
    },
    "SASL_SSL SCRAM-SHA-256": lambda c: sasl_tls(c, SCRAM_256),
    "SASL_SSL SCRAM-SHA-512": lambda c: sasl_tls(c, SCRAM_512),
    "SASL_SSL PLAIN": lambda c: sasl_tls(c, PLAIN),
    "SASL_PLAINTEXT PLAIN": lambda c: sasl(c, PLAIN),
    "SASL_PLAINTEXT SCRAM-SHA-256": lambda c: sasl(c, SCRAM_256),
}


@pytest.mark.parametrize("access", WAYS_IN.values(), ids=WAYS_IN)
async def test_records_arrive(secured: KafkaCluster, access: Access) -> None:
    """Copies with the file's consumer and producer settings; checked through an unsecured listener."""
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
        ("SASL SCRAM-SHA-512: authentication of user alice failed", "check A.sasl.jaas.config"),
    ),
    "wrong password, PLAIN": (
        lambda c: sasl(c, PLAIN, password="not it"),
        AuthenticationRefused,
        ("SASL PLAIN: authentication of user alice failed", "check A.sasl.jaas.config"),
    ),
    "unknown user": (
        lambda c: sasl_tls(c, SCRAM_256, user="mallory"),
        AuthenticationRefused,
        ("authentication of user mallory failed", "check A.sasl.jaas.config"),
    ),
    "mechanism not enabled on the broker": (
        lambda c: sasl(c, SCRAM_512),
        AuthenticationRefused,
        ("mechanism SCRAM-SHA-512 is not enabled on the broker", "check A.sasl.mechanism"),
    ),
    "certificate of an unknown authority": (
        lambda c: tls(c, trusted=STRANGER.ca_pem),
        TlsRefused,
        ("the broker's certificate is not trusted", "check A.ssl.truststore.*"),
    ),
    "no trust store: that of Java": (
        lambda c: {**address_only(c, "SSL"), "security.protocol": "SSL"},
        TlsRefused,
        ("the broker's certificate is not trusted", "check A.ssl.truststore.*"),
    ),
    "certificate of another host": (
        lambda c: tls(c, "ELSEWHERE", trusted=STRANGER.ca_pem),
        TlsRefused,
        ("the broker's certificate is for another host", "A.bootstrap.servers"),
    ),
    "no client certificate": (
        lambda c: tls(c, "MUTUAL"),
        TlsRefused,
        ("rejected the client certificate, or requires one", "check A.ssl.keystore.*"),
    ),
    "client certificate of an authority unknown to the broker": (
        lambda c: {**tls(c, "MUTUAL"), **keystore_file(STRANGER.client("eve"))},
        TlsRefused,
        ("rejected the client certificate", "check A.ssl.keystore.*"),
    ),
    "plain client, TLS port": (
        lambda c: address_only(c, "SSL"),
        TlsRefused,
        ("the port requires TLS, which is not enabled here", "check A.security.protocol (PLAINTEXT)"),
    ),
    "TLS client, plain port": (
        lambda c: tls(c, "PLAINTEXT"),
        ConnectionLost,
        ("is this a port without TLS?", "A.security.protocol (SSL)"),
    ),
    "plain client, SASL port": (
        lambda c: address_only(c, "SASL_PLAINTEXT"),
        ConnectionLost,
        ("does this port require TLS or SASL?", "A.security.protocol (PLAINTEXT)"),
    ),
    "SASL client, port without SASL": (
        lambda c: {**sasl(c, PLAIN), **address_only(c, "PLAINTEXT")},
        AuthenticationRefused,
        ("the port does not use SASL", "check A.security.protocol (SASL_PLAINTEXT)"),
    ),
}


@pytest.mark.parametrize(("access", "error", "words"), WAYS_OUT.values(), ids=WAYS_OUT)
async def test_error_names_the_property_to_check(
    secured: KafkaCluster, access: Access, error: type[ClusterError], words: tuple[str, ...]
) -> None:
    flow = flow_of(two_clusters(access(secured), address_only(secured, "PLAINTEXT")))
    async with Cluster(flow.clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)) as cluster:
        with pytest.raises(ClusterError) as refused:
            await cluster.metadata([])
    assert type(refused.value) is error
    assert refused.value.retriable, "a node retries"
    message = str(refused.value)
    assert message.startswith("cluster A: ")
    for part in words:
        assert part in message
    assert "not it" not in message
    assert PASSWORD not in message


async def test_passwords_from_config_providers(
    secured: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From files as mounted by Kubernetes, from a properties file, and from environment variables."""
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
    jks = scratch.directory("stores") / "trust.jks"
    write_trust_store(jks, secured.authority.ca_pem, "JKS")
    monkeypatch.setenv("MM2_TEST_STORE", STORE_PASSWORD)
    flow = flow_of(
        two_clusters(
            {
                **by_dir,
                "ssl.truststore.certificates": f"${{dir:{tmp_path}:ca.pem}}",
                "sasl.jaas.config": jaas.replace(PASSWORD, f"${{file:{tmp_path}/secrets.properties:alice}}"),
            },
            {
                **lines,
                "sasl.jaas.config": "${env:MM2_TEST_JAAS}",
                "ssl.truststore.type": "JKS",
                "ssl.truststore.location": str(jks),
                "ssl.truststore.password": "${env:MM2_TEST_STORE}",
            },
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
