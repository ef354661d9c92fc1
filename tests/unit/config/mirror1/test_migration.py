"""The new mm2.properties file: read back as a node reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mm2.config.load import Loaded
from mm2.config.load import load as load_mm2
from mm2.config.mirror1.migration import Migration, MigrationError
from mm2.core.policies import IdentityReplicationPolicy
from mm2.core.settings.client import OffsetReset
from tests.unit.config.mirror1.files import PRODUCER, loaded

PROVIDER = (
    "config.providers={0}\nconfig.providers.{0}.class=org.apache.kafka.common.config.provider.{1}ConfigProvider\n"
)


def migrated(directory: Path, consumer: str = "", producer: str = "", **given: Any) -> str:
    found = loaded(directory, consumer, producer, **given)
    assert found.settings is not None, "\n".join(map(str, found.problems))
    return Migration(
        settings=found.settings,
        consumer=found.consumers[0].file,
        producer=found.producer.file,
        source="old",
        target="new",
    ).text()


def read(directory: Path, text: str) -> Loaded:
    file = directory / "mm2.properties"
    file.write_text(text, "iso-8859-1")
    return load_mm2(file)


def test_everything_is_converted(tmp_path: Path) -> None:
    text = migrated(
        tmp_path,
        "fetch.size=2000000\nsession.timeout.ms=10000\nclient.rack=caf\\u00e9\nauto.offset.reset=earliest\n"
        "metadata.max.age.ms=90001\n",
        "compression.codec=3\nbuffer.memory=33554432\nspark.driver.memory=1g\nacks=1\nlinger.ms=5\n",
        include="orders\\..*,returns",
        streams=3,
        commit_interval_ms=9000,
    )
    result = read(tmp_path, text)
    assert [(one.is_warning, one.key) for one in result.problems] == [(True, "new.producer.acks")]  # it is not all
    assert result.settings is not None
    (flow,) = [flow for flow in result.settings.flows if flow.enabled]
    assert str(flow.flow) == "old->new"
    assert isinstance(flow.policy, IdentityReplicationPolicy)
    assert [flow.topic_filter(name) for name in ("orders.x", "returns", "ordersx", "__consumer_offsets")] == [
        True,
        True,
        False,
        False,
    ]
    assert flow.clients.source_consumer.bootstrap_servers == ("a:9092",)
    assert flow.clients.record_producer.bootstrap_servers == ("b:9092",)
    assert flow.clients.fetch.max_partition_bytes == 2_000_000
    assert flow.clients.fetch.client_rack == "café"
    assert flow.clients.fetch.auto_offset_reset is OffsetReset.EARLIEST
    assert (flow.clients.produce.acks, flow.clients.produce.compression_type) == (1, "lz4")
    assert flow.source.tasks_max == 3
    assert flow.worker.offset_flush_interval_ms == 9000
    assert flow.source.replication_factor == -1
    assert not flow.source.sync_topic_configs_enabled
    assert not flow.source.sync_topic_acls_enabled
    assert flow.source.refresh_topics_interval_seconds == 91
    assert [flow.replication_filter.replicates(name) for name in ("returns", "heartbeats")] == [True, False]
    assert result.settings.own.lane_buffer_bytes == 32 * 1024 * 1024
    assert result.settings.spark == {"spark.driver.memory": "1g"}
    assert "# without effect here: session.timeout.ms\n" in text
    assert "# without effect here: linger.ms\n" in text
    assert "consumer group mirror." in text


def test_defaults_of_mirror_maker_1(tmp_path: Path) -> None:
    text = migrated(tmp_path)
    assert "old.consumer.auto.offset.reset = latest\n" in text
    assert "flush.interval" not in text
    assert "without effect" not in text
    assert "config.providers" not in text
    assert "refresh.topics.interval.seconds = 300\n" in text
    result = read(tmp_path, text)
    assert result.problems == ()
    assert result.settings is not None
    (flow,) = [flow for flow in result.settings.flows if flow.enabled]
    names = ("heartbeats", "__consumer_offsets", "__x", ".x", "mm2-offsets.A.internal", "X.checkpoints.internal")
    assert [name for name in names if flow.replication_filter.replicates(name)] == ["heartbeats"]


def test_a_commit_after_each_poll(tmp_path: Path) -> None:
    text = migrated(tmp_path, commit_interval_ms=0)
    assert "new.offset.flush.interval.ms = 1\n" in text
    assert read(tmp_path, text).problems == ()


def test_the_shortest_interval_for_new_topics(tmp_path: Path) -> None:
    assert "refresh.topics.interval.seconds = 1\n" in migrated(tmp_path, "metadata.max.age.ms=0\n")


def test_failed_sends_and_classes(tmp_path: Path) -> None:
    found = loaded(tmp_path, abort_on_send_failure=False)
    assert found.settings is not None
    migration = Migration(
        settings=found.settings,
        consumer=found.consumers[0].file,
        producer=found.producer.file,
        source="old",
        target="new",
        classes=("com.acme.Handler",),
    )
    result = read(tmp_path, migration.text())
    assert "# Not converted: com.acme.Handler." in migration.text()
    assert result.settings is not None
    assert next(flow for flow in result.settings.flows if flow.enabled).source.errors_tolerance == "all"


def test_blacklist(tmp_path: Path) -> None:
    result = read(tmp_path, migrated(tmp_path, include=None, exclude="test-.*"))
    assert result.settings is not None
    (flow,) = [flow for flow in result.settings.flows if flow.enabled]
    assert [flow.topic_filter(name) for name in ("orders", "test-1", "__transaction_state")] == [True, False, False]


def test_secrets_stay_in_their_files(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    login = (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={module} username="{{}}" \\\n password="sesame";\n'
    )
    text = migrated(tmp_path, login.format("reader"), login.format("writer"))
    assert "sesame" not in text
    assert f"old.sasl.jaas.config = ${{mirrormaker1:{tmp_path}/consumer.properties:sasl.jaas.config}}\n" in text
    result = read(tmp_path, text)
    assert result.problems == ()
    assert result.settings is not None
    (flow,) = [flow for flow in result.settings.flows if flow.enabled]
    found = (flow.clients.source_consumer.login, flow.clients.record_producer.login)
    assert [(login.user, login.secrets) for login in found if login] == [
        ("reader", ("sesame",)),
        ("writer", ("sesame",)),
    ]


def test_references_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM1_RACK", "r1")
    lines = PROVIDER.format("env", "EnvVar") + "client.rack=${env:MM1_RACK}\n"
    text = migrated(tmp_path, lines, PROVIDER.format("f", "File"))
    assert "old.consumer.client.rack = ${env:MM1_RACK}\n" in text
    assert "config.providers = env, f\n" in text
    result = read(tmp_path, text)
    assert result.settings is not None
    assert next(flow for flow in result.settings.flows if flow.enabled).clients.fetch.client_rack == "r1"


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    "line",
    [
        f'sasl.jaas.config={PLAIN} username="${{env:MM1_USER}}" password="sesame";',
        f"sasl.jaas.config={PLAIN} username=u password=sesame-${{env:MM1_USER}};",
        f"sasl.jaas.config={PLAIN} username=${{env:MM1_USER}} /* sesame */ password=${{env:MM1_USER}};",
        "ssl.key.password=sesame${env:MM1_USER}",
    ],
)
def test_secrets_beside_references_are_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setenv("MM1_USER", "reader")
    protocol = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    if not line.startswith("sasl"):
        protocol = "security.protocol=SSL\n"
    with pytest.raises(MigrationError) as raised:
        migrated(tmp_path, PROVIDER.format("env", "EnvVar") + protocol + line + "\n")
    key = line.partition("=")[0]
    number = len((tmp_path / "consumer.properties").read_text().splitlines())
    assert str(raised.value) == (
        f"{tmp_path}/consumer.properties:{number}: {key} contains references and other text, which can be a secret:"
        " move the whole value to where the config provider reads it, and write one reference"
    )


def test_references_as_secrets_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM1_USER", "reader")
    login = (
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.key.password=${env:MM1_USER}\n"
        f'sasl.jaas.config={PLAIN} username="a-${{env:MM1_USER}}" password=${{env:MM1_USER}};\n'
    )
    text = migrated(tmp_path, PROVIDER.format("env", "EnvVar") + login)
    assert "old.ssl.key.password = ${env:MM1_USER}\n" in text
    assert f'old.sasl.jaas.config = {PLAIN} username="a-${{env:MM1_USER}}" password=${{env:MM1_USER}};\n' in text


def test_a_login_that_consists_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not a login module before its references are replaced can contain a secret anywhere."""
    monkeypatch.setenv("MM1_MODULE", f"{PLAIN} username=u")
    line = "sasl.jaas.config=${env:MM1_MODULE} password=sesame;\n"
    protocol = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    with pytest.raises(MigrationError, match=r"sasl\.jaas\.config contains references and other text"):
        migrated(tmp_path, PROVIDER.format("env", "EnvVar") + protocol + line)


def test_config_providers_that_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(MigrationError, match=r"config\.providers\.f\.class has different values in "):
        migrated(tmp_path, PROVIDER.format("f", "File"), PROVIDER.format("f", "Directory"))
    with pytest.raises(MigrationError, match="rename the config provider mirrormaker1"):
        migrated(tmp_path, PROVIDER.format("mirrormaker1", "File"))


def test_path_that_a_reference_cannot_contain(tmp_path: Path) -> None:
    directory = tmp_path / "a:b"
    directory.mkdir()
    with pytest.raises(MigrationError, match="has a colon or a brace in its path"):
        migrated(directory, "security.protocol=SSL\nssl.key.password=sesame\n")


def test_brokers_of_zookeeper_are_left_to_the_caller(tmp_path: Path) -> None:
    text = migrated(tmp_path, start=("zookeeper.connect=z\ngroup.id=g\noffsets.storage=kafka\n", PRODUCER))
    assert "old.bootstrap.servers = \n" in text
    assert "zookeeper.connect" not in text
