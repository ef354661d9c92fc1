from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from mm2.cli.errors import UsageError
from mm2.cli.node.node_address import admin_token, node_context, node_url, node_urls
from mm2.config.grammar.environment import Environment


@pytest.mark.parametrize(
    ("lines", "url"),
    [
        ("listeners = http://:8083", "http://127.0.0.1:8083"),
        ("listeners = http://0.0.0.0:9000", "http://127.0.0.1:9000"),
        ("listeners = http://10.1.2.3:8083, https://10.1.2.3:8443", "http://10.1.2.3:8083"),
        ("listeners = https://mm2.example.org:8443", "https://mm2.example.org:8443"),
        ("listeners = http://[::1]:8083", "http://[::1]:8083"),
        ("listeners = http://:8083\nrest.advertised.host.name = mm2\nrest.advertised.port = 80", "http://mm2:80"),
        ("dedicated.mode.enable.internal.rest = true", "http://127.0.0.1:8083"),
    ],
)
def test_url_from_a_file(tmp_path: Path, lines: str, url: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"clusters = A, B\n{lines}\n")
    assert node_url(str(file)) == url


def test_only_relevant_references_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "config.providers = env\n"
        "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "listeners = http://:${env:MM2_PORT}\n"
        "A.ssl.key.password = ${env:NOT_SET_HERE}\n"
    )
    monkeypatch.setenv("MM2_PORT", "9000")
    assert node_url(str(file)) == "http://127.0.0.1:9000"
    monkeypatch.delenv("MM2_PORT")
    with pytest.raises(UsageError, match="environment variable MM2_PORT is not set"):
        node_url(str(file))


def test_url_is_used_unchanged() -> None:
    assert node_url("https://mm2.example.org/") == "https://mm2.example.org"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "has no listeners, so its node has no REST interface: add listeners = http://127.0.0.1:8083"),
        ("dedicated.mode.enable.internal.rest = false", "has no listeners"),
        ("listeners = 8083", "listeners = 8083: must be comma-separated http or https URLs"),
        (
            "listeners = http://:8083\nrest.advertised.port = many",
            "port = many: must be a whole number",
        ),
    ],
)
def test_file_without_a_url_is_an_error(tmp_path: Path, lines: str, message: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(lines)
    with pytest.raises(UsageError, match=message):
        node_url(str(file))


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        node_url(str(tmp_path / "nowhere"))


PEM = Path(__file__).parents[3] / "snapshots" / "config" / "pem"


def test_trusted_certificates_of_an_https_node_are_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    store = f"type = PEM\nssl.keystore.location = {PEM / 'identity.pem'}\n"
    trust = f"ssl.truststore.type = PEM\nssl.truststore.location = {PEM / 'ca.pem'}\n"
    file.write_text(f"clusters = A, B\nlisteners = https://:8443\nssl.keystore.{store}{trust}A.x = ${{no:such}}\n")
    assert len(node_context(str(file)).tls.get_ca_certs()) == 1
    file.write_text("listeners = http://:8083\nssl.truststore.location = /no/such\n")
    system = len(ssl.create_default_context().get_ca_certs())
    assert len(node_context(str(file)).tls.get_ca_certs()) == system
    assert len(node_context("https://mm2.example.org").tls.get_ca_certs()) == system


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "ssl.keystore.type = PEM\nssl.keystore.location = /no/such",
            r"mm2\.properties:3: error: ssl\.keystore\.location = /no/such: cannot be read",
        ),
        (
            f"ssl.keystore.type = PEM\nssl.keystore.location = {PEM / 'identity-encrypted.pem'}\nssl.key.password = no",
            r"mm2\.properties:4: error: ssl\.key\.password = \[hidden\]: does not decrypt the private key",
        ),
    ],
)
def test_unreadable_keys_of_an_https_node(tmp_path: Path, lines: str, message: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"listeners = https://:8443\n{lines}\n")
    with pytest.raises(UsageError, match=message):
        node_context(str(file))


@pytest.mark.parametrize(
    ("lines", "urls"),
    [
        ("listeners = http://:8083", ["http://127.0.0.1:8083"]),
        (
            "listeners = https://:8443, http://:8083\nrest.advertised.host.name = mm2",
            ["https://127.0.0.1:8443", "http://127.0.0.1:8083", "http://mm2:8083"],
        ),
        ("dedicated.mode.enable.internal.rest = true", ["http://127.0.0.1:8083"]),
    ],
)
def test_local_node_comes_first(tmp_path: Path, lines: str, urls: list[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(lines)
    assert list(node_urls(str(file))) == urls


def test_url_argument_is_the_only_candidate() -> None:
    assert node_urls("http://mm2:8083/") == ("http://mm2:8083",)


def test_admin_token_is_read_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "config.providers = env\n"
        "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "mm2.rest.admin = true\nmm2.rest.admin.token = ${env:NODE_TOKEN}\n"
    )
    monkeypatch.setenv("NODE_TOKEN", "open-sesame-open")
    monkeypatch.setenv("MM2_REST_ADMIN_TOKEN", "of-some-other-node")
    assert admin_token(str(file), Environment()) == "open-sesame-open"
    assert admin_token("http://mm2:8083", Environment()) == "of-some-other-node"
    monkeypatch.delenv("NODE_TOKEN")
    with pytest.raises(UsageError, match="environment variable NODE_TOKEN is not set"):
        admin_token(str(file), Environment())


@pytest.mark.parametrize("lines", ["", "mm2.rest.admin = false\nmm2.rest.admin.token = x", "mm2.rest.admin = true"])
def test_node_without_admin_is_an_error(tmp_path: Path, lines: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(lines)
    with pytest.raises(UsageError, match=r"does not set mm2\.rest\.admin = true and mm2\.rest\.admin\.token"):
        admin_token(str(file), Environment())


def test_missing_token_for_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MM2_REST_ADMIN_TOKEN", raising=False)
    with pytest.raises(UsageError, match=r"or MM2_REST_ADMIN_TOKEN to the node's mm2\.rest\.admin\.token"):
        admin_token("http://mm2:8083", Environment())


def test_tls_terminated_by_a_proxy(tmp_path: Path) -> None:
    """Only a trust store is required, no certificate."""
    file = tmp_path / "mm2.properties"
    trust = f"ssl.truststore.type = PEM\nssl.truststore.location = {PEM / 'ca.pem'}\n"
    file.write_text(f"listeners = http://:8083\nrest.advertised.listener = https\n{trust}")
    assert len(node_context(str(file)).tls.get_ca_certs()) == 1
