"""Properties in mm2.properties for the lab's secured listeners, and a small copy that uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import javaproperties
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.control_producer import ControlProducer
from tests.lab import scratch
from tests.lab.cluster import ADMIN_TIMEOUT, SCRAM_ITERATIONS, KafkaCluster
from tests.lab.key_stores import STORE_PASSWORD, write_key_store, write_trust_store
from tests.lab.listeners import LOGIN_MODULES, ClientPems
from tests.lab.settings import ONE_COPY

Lines = Mapping[str, str]
"""Properties of one cluster, without the prefix of its alias."""

Access = Callable[[KafkaCluster], Lines]
"""Returns the properties for a listener of a cluster."""

ALICE, PASSWORD = "alice", "open = sesame; 1"  # characters that break bad quoting
KEY_PASSWORD = "key sesame"
STORED = 15.0  # seconds until a broker acknowledges a few records


def address_only(cluster: KafkaCluster, listener: str) -> dict[str, str]:
    """Return only the address, without any security property."""
    return {"bootstrap.servers": cluster.bootstrap_of(listener)}


def tls(cluster: KafkaCluster, listener: str = "SSL", *, trusted: str | None = None) -> dict[str, str]:
    """Return TLS properties with a PEM trust store file containing ``trusted`` (default: the cluster's authority)."""
    return {
        **address_only(cluster, listener),
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": pem_file(cluster.authority.ca_pem if trusted is None else trusted),
    }


def inline(cluster: KafkaCluster, listener: str = "SSL") -> dict[str, str]:
    """Return TLS properties with the trusted certificate inline."""
    return {
        **address_only(cluster, listener),
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": cluster.authority.ca_pem,
    }


def stores(cluster: KafkaCluster, store_type: str, *, key_password: str = STORE_PASSWORD) -> dict[str, str]:
    """Return mutual TLS with stores of Java's types, for listener MUTUAL."""
    directory = scratch.directory("stores")
    identity = cluster.authority.client("bob")
    own = write_key_store(directory / "key.store", identity, store_type, key_password=key_password)
    trusted = write_trust_store(directory / "trust.store", cluster.authority.ca_pem, store_type)
    return {
        **address_only(cluster, "MUTUAL"),
        "security.protocol": "SSL",
        "ssl.truststore.type": store_type,
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.keystore.type": store_type,
        "ssl.keystore.location": str(own),
        "ssl.keystore.password": STORE_PASSWORD,
        **({} if key_password == STORE_PASSWORD else {"ssl.key.password": key_password}),
    }


def keystore_file(pems: ClientPems, password: str | None = None) -> dict[str, str]:
    """Return a client key store in a PEM file; with a ``password`` its key is encrypted."""
    key = pems.key if password is None else encrypted(pems.key, password)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": pem_file(key + pems.certificate),
        **({} if password is None else {"ssl.key.password": password}),
    }


def keystore_inline(pems: ClientPems, password: str | None = None) -> dict[str, str]:
    """Return an inline client key store; with a ``password`` its key is encrypted."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pems.key if password is None else encrypted(pems.key, password),
        "ssl.keystore.certificate.chain": pems.certificate,
        **({} if password is None else {"ssl.key.password": password}),
    }


def login(mechanism: SaslMechanism, *, user: str = ALICE, password: str = PASSWORD) -> dict[str, str]:
    """Return SASL_PLAINTEXT credentials, without the address."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{LOGIN_MODULES[mechanism]} required username="{user}" password="{password}";',
    }


def sasl(cluster: KafkaCluster, mechanism: SaslMechanism, **who: str) -> dict[str, str]:
    """Return properties for SASL_PLAINTEXT."""
    return {**address_only(cluster, "SASL_PLAINTEXT"), **login(mechanism, **who)}


def sasl_tls(cluster: KafkaCluster, mechanism: SaslMechanism, **who: str) -> dict[str, str]:
    """Return properties for SASL_SSL."""
    return {**tls(cluster, "SASL_SSL"), **login(mechanism, **who), "security.protocol": SecurityProtocol.SASL_SSL}


def pem_file(content: str) -> str:
    """Write a new file and return its path."""
    path = scratch.directory("pem") / "store.pem"
    path.write_text(content)
    return str(path)


def encrypted(key: str, password: str) -> str:
    """Return a PKCS 8 key, encrypted as by openssl and keytool."""
    loaded = load_pem_private_key(key.encode(), password=None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())).decode()


def two_clusters(source: Lines, target: Lines, **more: str) -> dict[str, str]:
    """Return a complete file with one flow A->B."""
    return {
        "clusters": "A, B",
        **{f"A.{key}": value for key, value in source.items()},
        **{f"B.{key}": value for key, value in target.items()},
        "A->B.enabled": "true",
        "B->A.emit.heartbeats.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        **ONE_COPY,
        **more,
    }


def flow_of(properties: Lines) -> FlowSettings:
    """Return flow A->B of a file with these properties. Fails on any error in the file."""
    path = Path(scratch.directory("mm2")) / "mm2.properties"
    path.write_text(javaproperties.dumps(properties, timestamp=False))
    loaded = load(path)
    assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
    return next(flow for flow in loaded.settings.flows if str(flow.flow) == "A->B")


async def copy_with(flow: FlowSettings, topic: str) -> None:
    """Copy ``topic`` of A to its remote topic on B with the same consumer and producer settings as a lane."""
    source = Cluster(flow.clients.of(ClientRole.REPLICATION_CONSUMER, 0))
    target = Cluster(flow.clients.of(ClientRole.RECORDS, 0))
    async with source, target, ControlProducer(target) as producer:
        remote = flow.policy.format_remote_topic("A", topic)
        acknowledged = [
            producer.send(remote, record.partition, record.key, record.value, timestamp_ms=record.timestamp)
            async for record in CompactedLog(source, topic).read_to_end(timeout_ms=10_000)
        ]
        async with asyncio.timeout(STORED):
            await asyncio.gather(*acknowledged)


def create_user(cluster: KafkaCluster, user: str, password: str) -> None:
    """Create a SCRAM-SHA-512 user, or change its password."""
    kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, SCRAM_ITERATIONS)
    change: list[UserScramCredentialAlteration] = [UserScramCredentialUpsertion(user, kind, password.encode())]
    for future in cluster.admin.alter_user_scram_credentials(change).values():
        future.result(ADMIN_TIMEOUT)
