"""Connect strings are parsed as by ZooKeeper's own clients."""

from __future__ import annotations

import pytest

from mm2.core.settings.zookeeper_connect import ZooKeeperConnect, parse_connect


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
        ("", "an empty text is not a server"),
        ("/mm2", "an empty text is not a server"),
        ("zk:2181,", "an empty text is not a server"),
        ("zk1 zk2", "zk1 zk2 is not a server"),
        ("zk:port", "zk:port is not a server"),
        ("::1:2181", "::1:2181 is not a server"),
        ("zookeeper://zk:2181", "zookeeper: is not a server"),
        ("zk:0", "not 0"),
        ("zk:65536", "not 65536"),
        ("zk:2181/mm2/", "without a trailing slash"),
        ("zk:2181//mm2", "without empty parts"),
        ("zk:2181/a/../b", "without empty parts"),
        ("zk1:2181/mm2,zk2:2181", "after the last server"),
        ("zk1:2181/mm2,zk2:2181/mm2", "after the last server"),
        ("zk:2181/a\x00b", "must have at most one path"),
    ],
)
def test_invalid_connect_strings(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=r"^must ") as caught:
        parse_connect(text)
    assert rule in str(caught.value)
