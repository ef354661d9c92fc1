from __future__ import annotations

from pathlib import Path

import pytest

from mm2.config.clients.flow_clients import ClientRole
from mm2.core.settings.client import (
    ClientSettings,
    FetchSettings,
    IsolationLevel,
    OffsetReset,
    ProduceSettings,
    SecurityProtocol,
)
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from tests.unit.config.files import flow, loaded


def test_defaults(tmp_path: Path) -> None:
    clients = flow(tmp_path).clients
    assert clients.source_consumer == ClientSettings(bootstrap_servers=("a:9092",), alias="A", client_id="A->B")
    assert clients.target_producer == ClientSettings(bootstrap_servers=("b:9092",), alias="B", client_id="A->B")
    assert clients.target_admin.connections_max_idle_ms == 300_000
    assert clients.worker.request_timeout_ms == 40_000
    assert clients.fetch == FetchSettings()
    assert clients.produce == ProduceSettings()


def test_socket_buffers_of_each_client(tmp_path: Path) -> None:
    clients = flow(
        tmp_path,
        "A.consumer.receive.buffer.bytes = 4194304\nA->B.producer.override.send.buffer.bytes = 65536\n"
        "B.producer.send.buffer.bytes = 131072\nB.receive.buffer.bytes = 7\nA.admin.send.buffer.bytes = -1\n",
    ).clients
    assert (clients.source_consumer.receive_buffer_bytes, clients.source_consumer.send_buffer_bytes) == (4_194_304, -1)
    assert clients.record_producer.send_buffer_bytes == 65_536
    assert clients.target_producer.send_buffer_bytes == 131_072
    assert clients.worker.receive_buffer_bytes == 7
    assert clients.source_admin.send_buffer_bytes == -1


@pytest.mark.parametrize("size", ["0", "-2", "many"])
def test_size_that_no_socket_buffer_can_have(tmp_path: Path, size: str) -> None:
    (problem,) = loaded(tmp_path, f"A.consumer.receive.buffer.bytes = {size}\n").problems
    assert problem.key == "A.consumer.receive.buffer.bytes"
    assert problem.rule.startswith("must be")
    assert not problem.is_warning


@pytest.mark.parametrize(
    ("role", "task", "client_id"),
    [
        (ClientRole.REPLICATION_CONSUMER, 3, "A->B|MirrorSourceConnector-3|replication-consumer"),
        (ClientRole.REPLICATION_SOURCE_ADMIN, None, "A->B|MirrorSourceConnector|replication-source-admin"),
        (ClientRole.CHECKPOINTS_TARGET_CONSUMER, 0, "A->B|MirrorCheckpointConnector-0|checkpoints-target-consumer"),
        (ClientRole.HEARTBEATS_TARGET_ADMIN, None, "A->B|MirrorHeartbeatConnector|heartbeats-target-admin"),
        (ClientRole.RECORDS, 2, "connector-producer-MirrorSourceConnector-2"),
        (ClientRole.HEARTBEATS, None, "connector-producer-MirrorHeartbeatConnector-0"),
        (ClientRole.GROUP_MEMBER, None, "A->B"),
        (ClientRole.OFFSETS, None, "A-mm2-A->B-offsets"),
        (ClientRole.STATUSES, None, "A-mm2-A->B-statuses"),
    ],
)
def test_client_ids_as_in_java(role: ClientRole, task: int | None, client_id: str, tmp_path: Path) -> None:
    assert flow(tmp_path).clients.of(role, task).client_id == client_id


def test_every_role_has_a_client(tmp_path: Path) -> None:
    clients = flow(tmp_path).clients
    assert {clients.of(role).alias for role in ClientRole if "source" in role} == {"A"}
    assert {clients.of(role).alias for role in ClientRole if "target" in role} == {"B"}


def test_configured_client_id_is_a_prefix(tmp_path: Path) -> None:
    clients = flow(
        tmp_path, "A.consumer.client.id = mine\nB.producer.client.id = records\nB.client.id = node\n"
    ).clients
    named = clients.of(ClientRole.REPLICATION_CONSUMER, 1)
    assert named.client_id == "mine|A->B|MirrorSourceConnector-1|replication-consumer"
    assert clients.of(ClientRole.RECORDS, 1).client_id == "records"
    assert clients.of(ClientRole.GROUP_MEMBER).client_id == "node"
    assert clients.of(ClientRole.STATUSES).client_id == "A-mm2-node-statuses"


def test_fetching(tmp_path: Path) -> None:
    fetch = flow(
        tmp_path,
        "A.consumer.isolation.level = read_committed\nA.consumer.auto.offset.reset = latest\n"
        "A.consumer.client.rack = r1\nA.consumer.check.crcs = false\nA.consumer.fetch.max.bytes = 7\n",
    ).clients.fetch
    assert fetch == FetchSettings(
        isolation_level=IsolationLevel.READ_COMMITTED,
        auto_offset_reset=OffsetReset.LATEST,
        client_rack="r1",
        check_crcs=False,
        max_bytes=7,
    )


@pytest.mark.parametrize(
    ("lines", "acks", "idempotent", "in_flight"),
    [
        ("", -1, True, 5),
        ("B.producer.acks = -1\n", -1, True, 5),
        ("B.producer.acks = 1\n", 1, False, 1),
        ("B.producer.acks = 0\nB.producer.max.in.flight.requests.per.connection = 4\n", 0, False, 4),
        ("B.producer.enable.idempotence = false\n", -1, False, 1),
        ("B.producer.enable.idempotence = true\n", -1, True, 5),
        ("A->B.producer.override.max.in.flight.requests.per.connection = 2\n", -1, True, 2),
        ("A->B.producer.override.max.in.flight.requests.per.connection = 9\n", -1, False, 9),
    ],
)
def test_idempotence_follows_from_the_file(
    lines: str, acks: int, idempotent: bool, in_flight: int, tmp_path: Path
) -> None:
    produce = flow(tmp_path, lines).clients.produce
    assert (produce.acks, produce.idempotent, produce.max_in_flight) == (acks, idempotent, in_flight)


@pytest.mark.parametrize(
    ("lines", "codec", "level"),
    [
        ("B.producer.compression.type = zstd\n", "zstd", None),
        ("B.producer.compression.type = zstd\nB.producer.compression.zstd.level = -1\n", "zstd", -1),
        ("B.producer.compression.type = gzip\nB.producer.compression.gzip.level = -1\n", "gzip", None),
        ("B.producer.compression.type = gzip\nB.producer.compression.gzip.level = 9\n", "gzip", 9),
        ("B.producer.compression.type = snappy\nB.producer.compression.lz4.level = 1\n", "snappy", None),
        ("B.producer.compression.lz4.level = 1\n", None, None),
    ],
)
def test_codecs_and_levels(lines: str, codec: str | None, level: int | None, tmp_path: Path) -> None:
    produce = flow(tmp_path, lines).clients.produce
    assert (produce.compression_type, produce.compression_level) == (codec, level)


@pytest.mark.parametrize("server", ["a:1", "[::1]:9092", "PLAINTEXT://a.b-c_d:9092", "a:1, b:2"])
def test_bootstrap_servers_that_java_accepts(server: str, tmp_path: Path) -> None:
    found = flow(tmp_path, f"A.consumer.bootstrap.servers = {server}\n").clients.source_consumer
    assert ", ".join(found.bootstrap_servers) == server


@pytest.mark.parametrize("server", ["a", "a:", ":x", "a:1;b:2", "", "a:1,"])
def test_bootstrap_servers_that_java_rejects(server: str, tmp_path: Path) -> None:
    result = loaded(tmp_path, f"A.consumer.bootstrap.servers = {server}\n")
    assert [problem.line for problem in result.problems] == [5]


def test_sasl_login(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security"
    clients = flow(
        tmp_path,
        "A.security.protocol = sasl_plaintext\nA.sasl.mechanism = PLAIN\n"
        f'A.sasl.jaas.config = {module}.plain.PlainLoginModule required username="u" password="sesame";\n'
        "B.security.protocol = SASL_SSL\nB.sasl.mechanism = SCRAM-SHA-512\n"
        f'B.sasl.jaas.config = {module}.scram.ScramLoginModule required username="v" password="open";\n',
    ).clients
    assert clients.source_admin.security_protocol is SecurityProtocol.SASL_PLAINTEXT
    assert clients.source_admin.sasl == PasswordLogin(mechanism=SaslMechanism.PLAIN, username="u", password="sesame")
    assert clients.worker.security_protocol is SecurityProtocol.SASL_SSL
    assert clients.record_producer.sasl == PasswordLogin(
        mechanism=SaslMechanism.SCRAM_SHA_512, username="v", password="open"
    )
    assert "sesame" not in repr(clients)


@pytest.mark.parametrize(
    ("servers", "rule", "fix"),
    [
        ("b1:1; b2:2", '; element 1 "b1:1; b2:2" is not host:port', "write B.consumer.bootstrap.servers = b1:1, b2:2"),
        ("b1:1, b2", '; element 2 "b2" is not host:port', "write host:port for each broker, such as b1:9092, b2:9092"),
        ("", "", "write host:port for each broker, such as b1:9092, b2:9092"),
        ("password=b:1", "", "write host:port for each broker, such as b1:9092, b2:9092"),  # can be a secret
    ],
)
def test_the_wrong_broker_is_named(tmp_path: Path, servers: str, rule: str, fix: str) -> None:
    (problem,) = loaded(tmp_path, f"B.consumer.bootstrap.servers = {servers}\n").problems
    assert problem.rule == f"must be a comma-separated host:port list{rule}"
    assert problem.fix == fix
