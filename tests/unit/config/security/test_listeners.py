from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.settings.listener import ClientAuth, ListenerSettings
from mm2.core.settings.response_headers import HeaderRule
from tests.unit.config.files import loaded, settings

PEM = Path(__file__).parents[3] / "snapshots" / "config" / "pem"
HTTPS = "listeners = http://:8083, HTTPS://:8443\n"


def listening(directory: Path, lines: str) -> ListenerSettings:
    return settings(directory, lines).listening


def store(prefix: str, store_name: str, name: str) -> str:
    return f"{prefix}ssl.{store_name}.type = PEM\n{prefix}ssl.{store_name}.location = {PEM / name}\n"


def test_defaults(tmp_path: Path) -> None:
    assert listening(tmp_path, "") == ListenerSettings()


def test_stores_are_not_read_without_https_listeners(tmp_path: Path) -> None:
    lines = f"listeners = http://:8083\nssl.keystore.location = {PEM / 'store.jks'}\nssl.client.auth = required\n"
    lines += "security.protocol = PLAINTEXT\n"
    assert listening(tmp_path, lines).tls is None


@pytest.mark.parametrize("prefix", ["", "listeners.https."])
def test_https(tmp_path: Path, prefix: str) -> None:
    lines = store(prefix, "keystore", "identity-encrypted.pem") + store(prefix, "truststore", "ca.pem")
    lines += f"{prefix}ssl.key.password = sesame\n{prefix}ssl.client.auth = requested\n"
    node = settings(tmp_path, HTTPS + lines)
    tls = node.listening.tls
    assert tls is not None
    assert tls.client_auth is ClientAuth.REQUESTED
    assert tls.tls.ca_pem == (PEM / "ca.pem").read_text()
    assert tls.tls.key_pem == (PEM / "key-encrypted.pem").read_text().strip()
    assert tls.tls.key_password == "sesame"
    assert node.listening.peers == tls.tls
    assert "sesame" not in repr(node)
    assert "PRIVATE" not in repr(node)


def test_listener_prefix_replaces_all_unprefixed_keys(tmp_path: Path) -> None:
    lines = store("", "keystore", "identity.pem") + "ssl.client.auth = required\n"
    lines += store("listeners.https.", "keystore", "identity.pem") + store("", "truststore", "ca.pem")
    tls = listening(tmp_path, HTTPS + lines).tls
    assert tls is not None
    assert tls.tls.ca_pem != (PEM / "ca.pem").read_text()
    assert tls.client_auth is ClientAuth.NONE


def test_old_tls_versions_are_ignored_if_others_remain(tmp_path: Path) -> None:
    lines = store("", "keystore", "identity.pem") + "ssl.enabled.protocols = TLSv1.1, TLSv1.2\n"
    tls = listening(tmp_path, HTTPS + lines).tls
    assert tls is not None
    assert tls.tls.protocols == ("TLSv1.2",)


def test_tls_terminated_by_a_proxy(tmp_path: Path) -> None:
    lines = "listeners = http://:8083\nrest.advertised.listener = HTTPS\n" + store("", "truststore", "ca.pem")
    node = settings(tmp_path, lines)
    assert node.rest.advertised_listener == "https"
    assert node.listening.tls is None
    assert node.listening.peers is not None
    assert node.listening.peers.ca_pem == (PEM / "ca.pem").read_text()


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ("*", "https://anywhere.example", True),
        (r"https://[a-z]+\\.example\\.org", "https://ops.example.org", True),
        (r"https://[a-z]+\\.example\\.org", "https://ops.example.org.evil", False),
        (r"https://a, https://b", "https://b", True),
        (r"https://a, https://b", "https://c", False),
        (r"https://A", "https://a", True),
        (r"https://.*", f"https://{'a' * 300}", False),
    ],
)
def test_origins(tmp_path: Path, origins: str, origin: str, allowed: bool) -> None:
    cross_origin = listening(tmp_path, f"access.control.allow.origin = {origins}\n").cross_origin
    assert cross_origin is not None
    assert cross_origin.allows(origin) is allowed
    assert cross_origin.methods == ("GET", "POST", "HEAD")


def test_allowed_methods_without_origins_have_no_effect(tmp_path: Path) -> None:
    assert listening(tmp_path, "access.control.allow.methods = GET\n").cross_origin is None
    lines = "access.control.allow.origin = *\naccess.control.allow.methods = GET, PUT\n"
    cross_origin = listening(tmp_path, lines).cross_origin
    assert cross_origin is not None
    assert cross_origin.methods == ("GET", "PUT")


def test_headers(tmp_path: Path) -> None:
    found = listening(tmp_path, "response.http.headers.config = set X-Frame-Options: DENY\n")
    assert found.headers == (HeaderRule(name="X-Frame-Options", value="DENY"),)


def test_token_is_hidden(tmp_path: Path) -> None:
    lines = "listeners = http://:8083\nmm2.rest.admin = true\nmm2.rest.admin.token = open-sesame-open\n"
    result = loaded(tmp_path, lines)
    assert result.settings is not None
    assert result.settings.own.rest_admin_token == "open-sesame-open"
    assert "sesame" not in repr(result)
