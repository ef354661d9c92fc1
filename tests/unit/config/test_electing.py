"""What nodes elect a leader with, as the file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.zookeeper_settings import AuthScheme, ZooKeeperAuth, ZooKeeperSettings
from tests.unit.config.files import flow, loaded, settings

ZOOKEEPER = "mm2.election = zookeeper\nmm2.zookeeper.connect = zk1:2181, zk2/prod\n"
USER = "mm2.zookeeper.auth.scheme = digest\nmm2.zookeeper.auth.username = mm2\n"


@pytest.mark.parametrize("lines", ["", "mm2.election = kafka\n", "mm2.zookeeper.connect = zk:2181\n"])
def test_by_the_flows_group_unless_said_otherwise(tmp_path: Path, lines: str) -> None:
    assert flow(tmp_path, lines).zookeeper is None


def test_each_flow_has_an_election_of_its_own(tmp_path: Path) -> None:
    flows = settings(tmp_path, ZOOKEEPER + "B.heartbeat.interval.ms = 1000\n").flows
    servers = ("zk1:2181", "zk2:2181")
    assert [one.zookeeper for one in flows] == [
        ZooKeeperSettings(servers=servers, path="/prod/mm2/A->B", heartbeat_interval_ms=1_000),
        ZooKeeperSettings(servers=servers, path="/prod/mm2/B->A"),
    ]


def test_the_session_outlasts_an_outage_of_ten_seconds(tmp_path: Path) -> None:
    """One that begins right after the next look should have come, and ends right after an attempt to connect."""
    told = flow(tmp_path, ZOOKEEPER).zookeeper
    assert told is not None
    assert told.session_timeout_ms > told.heartbeat_interval_ms + 10_000 + 3_000
    changed = flow(tmp_path, ZOOKEEPER + "mm2.zookeeper.session.timeout.ms = 30000\nB.session.timeout.ms = 9000\n")
    assert changed.zookeeper is not None
    assert (changed.zookeeper.session_timeout_ms, changed.worker.session_timeout_ms) == (30_000, 9_000)


def test_a_password_may_come_from_elsewhere_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("zookeeper = open-sesame\n")
    lines = "config.providers = file\n"
    lines += "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
    lines += ZOOKEEPER + USER
    lines += f"mm2.zookeeper.auth.password = ${{file:{tmp_path}/secrets.properties:zookeeper}}\n"
    node = settings(tmp_path, lines)
    told = node.flows[0].zookeeper
    assert told is not None
    assert told.auth == ZooKeeperAuth(scheme=AuthScheme.DIGEST, username="mm2", password="open-sesame")
    assert "sesame" not in repr(node)


def test_a_reference_that_leads_nowhere_is_told_once(tmp_path: Path) -> None:
    lines = "config.providers = env\n"
    lines += "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    lines += ZOOKEEPER + USER + "mm2.zookeeper.auth.password = ${env:MM2_NOWHERE}\n"
    assert [problem.key for problem in loaded(tmp_path, lines).problems] == ["mm2.zookeeper.auth.password"]
