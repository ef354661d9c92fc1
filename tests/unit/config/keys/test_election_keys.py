"""Election backend settings of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.settings.zookeeper import AuthScheme, ZooKeeperAuth, ZooKeeperSettings
from tests.unit.config.files import flow, loaded, settings
from tests.unit.config.security.tls.formats.golden import STORES

ZOOKEEPER = "mm2.election = zookeeper\nmm2.zookeeper.connect = zk1:2181, zk2/prod\n"
USER = "mm2.zookeeper.auth.scheme = digest\nmm2.zookeeper.auth.username = mm2\n"


@pytest.mark.parametrize("lines", ["", "mm2.election = kafka\n", "mm2.zookeeper.connect = zk:2181\n"])
def test_kafka_group_is_the_default(tmp_path: Path, lines: str) -> None:
    assert flow(tmp_path, lines).election is None


def test_each_flow_has_its_own_election(tmp_path: Path) -> None:
    flows = settings(tmp_path, ZOOKEEPER + "B.heartbeat.interval.ms = 1000\n").flows
    servers = ("zk1:2181", "zk2:2181")
    assert [one.election for one in flows] == [
        ZooKeeperSettings(servers=servers, path="/prod/mm2/A->B", heartbeat_interval_ms=1_000),
        ZooKeeperSettings(servers=servers, path="/prod/mm2/B->A"),
    ]


def test_session_survives_an_outage_of_ten_seconds(tmp_path: Path) -> None:
    """Including an outage that begins right after a heartbeat and ends right after a connection attempt."""
    election = flow(tmp_path, ZOOKEEPER).election
    assert isinstance(election, ZooKeeperSettings)
    assert election.session_timeout_ms > election.heartbeat_interval_ms + 10_000 + 3_000
    changed = flow(tmp_path, ZOOKEEPER + "mm2.zookeeper.session.timeout.ms = 30000\nB.session.timeout.ms = 9000\n")
    assert changed.election is not None
    assert (changed.election.session_timeout_ms, changed.worker.session_timeout_ms) == (30_000, 9_000)


def test_password_can_be_a_reference_and_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("zookeeper = open-sesame\n")
    lines = "config.providers = file\n"
    lines += "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
    lines += ZOOKEEPER + USER
    lines += f"mm2.zookeeper.auth.password = ${{file:{tmp_path}/secrets.properties:zookeeper}}\n"
    node = settings(tmp_path, lines)
    election = node.flows[0].election
    assert isinstance(election, ZooKeeperSettings)
    assert election.auth == ZooKeeperAuth(scheme=AuthScheme.DIGEST, username="mm2", password="open-sesame")
    assert "sesame" not in repr(node)
    assert election.secrets == ("open-sesame",)


def test_unresolved_reference_is_reported_once(tmp_path: Path) -> None:
    lines = "config.providers = env\n"
    lines += "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    lines += ZOOKEEPER + USER + "mm2.zookeeper.auth.password = ${env:MM2_NOWHERE}\n"
    assert [problem.key for problem in loaded(tmp_path, lines).problems] == ["mm2.zookeeper.auth.password"]


TLS = f"""mm2.zookeeper.ssl.client.enable = true
mm2.zookeeper.ssl.truststore.location = {STORES / "trust.jks"}
mm2.zookeeper.ssl.keystore.location = {STORES / "identity.jks"}
mm2.zookeeper.ssl.keystore.password = sesame
mm2.zookeeper.ssl.key.password = open sesame
"""


def test_tls_has_the_keys_of_clients(tmp_path: Path) -> None:
    node = settings(tmp_path, ZOOKEEPER + TLS + "mm2.zookeeper.ssl.endpoint.identification.algorithm =\n")
    election = node.flows[0].election
    assert isinstance(election, ZooKeeperSettings)
    assert election.tls is not None
    assert election.tls.ca_pem == (STORES / "ca.pem").read_text()
    assert election.tls.certificate_pem == (STORES / "chain.pem").read_text()
    assert not election.tls.check_hostname
    assert election.secrets == (election.tls.key_pem,)
    assert "sesame" not in repr(node)


def test_invalid_tls_names_the_key_and_its_line(tmp_path: Path) -> None:
    problems = loaded(tmp_path, ZOOKEEPER + TLS.replace("= sesame", "= no")).problems
    assert [(one.key, one.line, one.is_warning) for one in problems] == [
        ("mm2.zookeeper.ssl.keystore.password", 10, False)
    ]


def test_tls_that_is_not_enabled(tmp_path: Path) -> None:
    lines = TLS.replace("enable = true", "enable = false").replace("location = /", "location = /no/such/")
    problems = loaded(tmp_path, ZOOKEEPER + lines).problems
    assert {one.rule for one in problems} == {"has no effect without mm2.zookeeper.ssl.client.enable = true"}
    assert [one.key for one in problems if one.is_warning] == [
        f"mm2.zookeeper.ssl.{name}"
        for name in ("truststore.location", "keystore.location", "keystore.password", "key.password")
    ]


def test_unknown_tls_key(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, ZOOKEEPER + TLS + "mm2.zookeeper.ssl.trustore.type = JKS\n").problems
    assert problem.fix == "did you mean mm2.zookeeper.ssl.truststore.type?"
