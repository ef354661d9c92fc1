"""Where elections live on ZooKeeper, and what of an identity is shown."""

from __future__ import annotations

from mm2.core.names import Flow
from mm2.core.zookeeper_connect import parse_connect
from mm2.core.zookeeper_settings import AuthScheme, ZooKeeperAuth, election_path


def test_each_flow_has_a_path_below_the_chroot() -> None:
    assert election_path(parse_connect("zk:2181/prod"), Flow("A", "B")) == "/prod/mm2/A->B"
    assert election_path(parse_connect("zk:2181"), Flow("A", "C")) == "/mm2/A->C"


def test_a_password_is_not_shown() -> None:
    assert "sesame" not in repr(ZooKeeperAuth(scheme=AuthScheme.SASL, username="mm2", password="sesame"))
