"""Election paths on ZooKeeper, and hidden credentials."""

from __future__ import annotations

from mm2.core.naming.names import Flow
from mm2.core.settings.zookeeper import AuthScheme, ZooKeeperAuth, ZooKeeperSettings, election_path
from mm2.core.settings.zookeeper_connect import parse_connect


def test_path_of_a_flow() -> None:
    assert election_path(parse_connect("zk:2181/prod"), Flow("A", "B")) == "/prod/mm2/A->B"
    assert election_path(parse_connect("zk:2181"), Flow("A", "C")) == "/mm2/A->C"


def test_password_is_hidden() -> None:
    assert "sesame" not in repr(ZooKeeperAuth(scheme=AuthScheme.SASL, username="mm2", password="sesame"))


def test_election_is_identified_by_server_and_path() -> None:
    settings = ZooKeeperSettings(servers=("ZK1:2181", "zk2:2182"), path="/mm2/A->B")
    assert settings.places == ("zk1:2181/mm2/A->B", "zk2:2182/mm2/A->B")
