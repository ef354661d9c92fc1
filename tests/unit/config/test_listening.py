from __future__ import annotations

from pathlib import Path

import pytest

from mm2.core.answer_headers import HeaderRule
from mm2.core.listener_settings import ClientAuth, ListenerSettings
from tests.unit.config.files import loaded, settings

PEM = Path(__file__).parents[2] / "golden" / "config" / "pem"
HTTPS = "listeners = http://:8083, HTTPS://:8443\n"


def listening(directory: Path, lines: str) -> ListenerSettings:
    return settings(directory, lines).listening


def store(prefix: str, word: str, name: str) -> str:
    return f"{prefix}ssl.{word}.type = PEM\n{prefix}ssl.{word}.location = {PEM / name}\n"


def test_nothing_said(tmp_path: Path) -> None:
    assert listening(tmp_path, "") == ListenerSettings()


def test_stores_of_clients_are_not_read_where_nothing_is_https(tmp_path: Path) -> None:
    lines = f"listeners = http://:8083\nssl.keystore.location = {PEM / 'store.jks'}\nssl.client.auth = required\n"
    assert listening(tmp_path, lines).tls is None


@pytest.mark.parametrize("prefix", ["", "listeners.https."])
def test_https(tmp_path: Path, prefix: str) -> None:
    lines = store(prefix, "keystore", "identity-encrypted.pem") + store(prefix, "truststore", "ca.pem")
    lines += f"{prefix}ssl.key.password = open-sesame\n{prefix}ssl.client.auth = requested\n"
    node = settings(tmp_path, HTTPS + lines)
    tls = node.listening.tls
    assert tls is not None
    assert tls.client_auth is ClientAuth.REQUESTED
    assert tls.tls.ca_pem == (PEM / "ca.pem").read_text()
    assert tls.tls.key_pem == (PEM / "key-encrypted.pem").read_text().strip()
    assert tls.tls.key_password == "open-sesame"
    assert node.listening.peers == tls.tls
    assert "sesame" not in repr(node)
    assert "PRIVATE" not in repr(node)


def test_one_key_of_the_listeners_hides_all_others(tmp_path: Path) -> None:
    lines = store("", "keystore", "identity.pem") + "ssl.client.auth = required\n"
    lines += store("listeners.https.", "keystore", "identity.pem") + store("", "truststore", "ca.pem")
    tls = listening(tmp_path, HTTPS + lines).tls
    assert tls is not None
    assert (tls.tls.ca_pem, tls.client_auth) == (None, ClientAuth.NONE)


def test_old_versions_of_tls_are_left_out_as_long_as_one_remains(tmp_path: Path) -> None:
    lines = store("", "keystore", "identity.pem") + "ssl.enabled.protocols = TLSv1.1, TLSv1.2\n"
    tls = listening(tmp_path, HTTPS + lines).tls
    assert tls is not None
    assert tls.tls.protocols == ("TLSv1.1", "TLSv1.2")


def test_a_proxy_may_speak_tls_for_the_node(tmp_path: Path) -> None:
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


def test_methods_alone_allow_nothing(tmp_path: Path) -> None:
    assert listening(tmp_path, "access.control.allow.methods = GET\n").cross_origin is None
    lines = "access.control.allow.origin = *\naccess.control.allow.methods = GET, PUT\n"
    cross_origin = listening(tmp_path, lines).cross_origin
    assert cross_origin is not None
    assert cross_origin.methods == ("GET", "PUT")


def test_headers(tmp_path: Path) -> None:
    found = listening(tmp_path, "response.http.headers.config = set X-Frame-Options: DENY\n")
    assert found.headers == (HeaderRule(name="X-Frame-Options", value="DENY"),)


def test_the_token_shows_nowhere(tmp_path: Path) -> None:
    lines = "listeners = http://:8083\nmm2.rest.admin = true\nmm2.rest.admin.token = open-sesame-open\n"
    result = loaded(tmp_path, lines)
    assert result.settings is not None
    assert result.settings.own.rest_admin_token == "open-sesame-open"
    assert "sesame" not in repr(result)
