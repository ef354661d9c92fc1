"""Connect strings as ZooKeeper's own clients read them."""

from __future__ import annotations

import pytest

from mm2.core.zookeeper_connect import ZooKeeperConnect, parse_connect


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("zk:2181", ("zk:2181",), ""),
        ("zk", ("zk:2181",), ""),
        (" zk1:2181 , zk2:2182 ", ("zk1:2181", "zk2:2182"), ""),
        ("zk1.example.com:1,10.0.0.7:65535/mm2", ("zk1.example.com:1", "10.0.0.7:65535"), "/mm2"),
        ("zk:2181/a/b c", ("zk:2181",), "/a/b c"),
        ("zk:2181/", ("zk:2181",), ""),
        ("[::1]:2181,[fe80::1%eth0]", ("[::1]:2181", "[fe80::1%eth0]:2181"), ""),
    ],
)
def test_servers_and_chroot(text: str, servers: tuple[str, ...], chroot: str) -> None:
    assert parse_connect(text) == ZooKeeperConnect(servers=servers, chroot=chroot)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "nothing is none of it"),
        ("/mm2", "nothing is none of it"),
        ("zk:2181,", "nothing is none of it"),
        ("zk1 zk2", "zk1 zk2 is none of it"),
        ("zk:port", "zk:port is none of it"),
        ("::1:2181", "::1:2181 is none of it"),
        ("zookeeper://zk:2181", "zookeeper: is none of it"),
        ("zk:0", "not 0"),
        ("zk:65536", "not 65536"),
        ("zk:2181/mm2/", "without a slash at its end"),
        ("zk:2181//mm2", "without empty parts"),
        ("zk:2181/a/../b", "without empty parts"),
        ("zk1:2181/mm2,zk2:2181", "after the last server"),
        ("zk1:2181/mm2,zk2:2181/mm2", "after the last server"),
        ("zk:2181/a\x00b", "must have one path"),
    ],
)
def test_what_is_no_connect_string(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=r"^must ") as refused:
        parse_connect(text)
    assert rule in str(refused.value)
