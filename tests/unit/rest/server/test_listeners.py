from __future__ import annotations

import pytest

from mm2.core.lanes.lease import LeaseEndpoint
from mm2.core.settings.listener import ServerTls
from mm2.core.settings.tls import TlsSettings
from mm2.rest.server.lane_identity import LaneIdentity
from mm2.rest.server.listeners import Advertised, Listener, ListenerError, advertised_url, lease_place


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port"),
    [
        ("http://:8083", "http", "", 8083),
        ("HTTPS://mm2-1.example.org:8443", "https", "mm2-1.example.org", 8443),
        (" http://0.0.0.0:0 ", "http", "0.0.0.0", 0),
        ("http://[::1]:8083", "http", "::1", 8083),
    ],
)
def test_parse(text: str, scheme: str, host: str, port: int) -> None:
    assert Listener.parse(text) == Listener(scheme=scheme, host=host, port=port)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8083", "write protocol://host:port"),
        ("http://host", "write protocol://host:port"),
        ("http://host:8083/path", "write protocol://host:port"),
        ("ftp://host:21", "must be http or https"),
        ("http://host:65536", "at most 65535"),
    ],
)
def test_invalid_listeners_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ListenerError, match=message):
        Listener.parse(text)


@pytest.mark.parametrize(
    ("listeners", "advertised", "expected"),
    [
        (["http://:8083"], Advertised(), "http://box:8083"),
        (["http://0.0.0.0:8083"], Advertised(), "http://box:8083"),
        (["http://10.0.0.1:8083"], Advertised(), "http://10.0.0.1:8083"),
        (["http://[fe80::1]:8083"], Advertised(), "http://[fe80::1]:8083"),
        (["https://a:1", "http://b:2"], Advertised(), "http://b:2"),
        (["http://b:2", "https://a:1"], Advertised(scheme="https"), "https://a:1"),
        (["https://a:1"], Advertised(), "https://a:1"),
        (["http://b:2"], Advertised(host="outside", port=80), "http://outside:80"),
    ],
)
def test_advertised_url(listeners: list[str], advertised: Advertised, expected: str) -> None:
    assert advertised_url([Listener.parse(text) for text in listeners], advertised, own_host="box") == expected


TLS = ServerTls(tls=TlsSettings(certificate_pem="OWN", key_pem="KEY", key_password="sesame", check_hostname=False))


@pytest.mark.parametrize(
    ("listeners", "advertised", "expected"),
    [
        (["http://:8083"], Advertised(), LeaseEndpoint(url="http://box:8083")),
        (
            ["http://:1", "https://:2"],
            Advertised(),
            LeaseEndpoint(url="https://box:2", ca_pem="OWN", check_hostname=False),
        ),
        (["http://:1", "https://:2"], Advertised(scheme="http"), LeaseEndpoint(url="http://box:1")),
    ],
)
def test_lanes_prefer_https_listeners(listeners: list[str], advertised: Advertised, expected: LeaseEndpoint) -> None:
    assert lease_place([Listener.parse(text) for text in listeners], advertised, TLS, None, own_host="box") == expected


def test_lanes_trust_the_nodes_certificate_and_its_authorities() -> None:
    tls = ServerTls(tls=TlsSettings(certificate_pem="OWN", key_pem="KEY", ca_pem="CA"))
    lanes = LaneIdentity(certificate_pem="LANE", key_pem="LANE KEY")
    place = lease_place([Listener.parse("https://:2")], Advertised(), tls, lanes, own_host="box")
    assert (place.ca_pem, place.check_hostname) == ("OWN\nCA", True)
    assert (place.certificate_pem, place.key_pem) == ("LANE", "LANE KEY")
    assert "KEY" not in repr(place)
