from __future__ import annotations

import socket

import pytest

from mm2.kafka.sasl.kerberos.kerberos_tickets import principal_host

NAMES = {"10.0.0.1": "b1.example.com", "b1": "b1.example.com", "B2": "B2.Example.com", "alias": "b1.example.com"}
NO = "[libdefaults]\ndns_canonicalize_hostname = false\n"


@pytest.fixture(autouse=True)
def dns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that no resolver of the machine knows."""

    def look_up(host: str) -> tuple[str, list[str], list[str]]:
        if host not in NAMES:
            raise socket.herror(1, "Unknown host")
        return NAMES[host], [], []

    monkeypatch.setattr(socket, "gethostbyaddr", look_up)


@pytest.mark.parametrize(
    ("host", "krb5_conf", "name"),
    [
        ("10.0.0.1", None, "b1.example.com"),
        ("10.0.0.1", NO, "b1.example.com"),
        ("10.0.0.2", None, "10.0.0.2"),
        ("b1", None, "b1.example.com"),
        ("b1", NO, "b1"),
        ("B2", None, "b2.example.com"),
        ("alias", None, "alias"),  # the name of the certificate and of the principal, not of the machine
        ("B9.Example.com", None, "b9.example.com"),
    ],
)
def test_names(host: str, krb5_conf: str | None, name: str) -> None:
    assert principal_host(host, krb5_conf) == name
