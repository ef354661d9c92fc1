from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from mm2.cli.node_address import admin_token, node_context, node_url, node_urls
from mm2.cli.trouble import UsageError
from mm2.config.environment import Environment


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
def test_the_url_of_a_file(tmp_path: Path, lines: str, url: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"clusters = A, B\n{lines}\n")
    assert node_url(str(file)) == url


def test_references_are_looked_up_but_only_where_they_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(UsageError, match="there is no environment variable MM2_PORT"):
        node_url(str(file))


def test_a_url_is_taken_as_it_is() -> None:
    assert node_url("https://mm2.example.org/") == "https://mm2.example.org"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("", "has no listeners, so its node shows nothing: add listeners = http://127.0.0.1:8083"),
        ("dedicated.mode.enable.internal.rest = false", "has no listeners"),
        ("listeners = 8083", "'8083' is not a listener: write protocol://host:port"),
        ("listeners = http://:8083\nrest.advertised.port = many", "mm2 check .* tells more"),
    ],
)
def test_a_file_without_a_url_is_told(tmp_path: Path, lines: str, sentence: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(lines)
    with pytest.raises(UsageError, match=sentence):
        node_url(str(file))


def test_a_file_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        node_url(str(tmp_path / "nowhere"))


PEM = Path(__file__).parents[2] / "golden" / "config" / "pem"


def test_whom_to_trust_at_an_https_node_stands_in_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    store = f"type = PEM\nssl.keystore.location = {PEM / 'identity.pem'}\n"
    trust = f"ssl.truststore.type = PEM\nssl.truststore.location = {PEM / 'ca.pem'}\n"
    file.write_text(f"clusters = A, B\nlisteners = https://:8443\nssl.keystore.{store}{trust}A.x = ${{no:such}}\n")
    assert len(node_context(str(file)).get_ca_certs()) == 1
    file.write_text("listeners = http://:8083\nssl.truststore.location = /no/such\n")
    system = len(ssl.create_default_context().get_ca_certs())
    assert len(node_context(str(file)).get_ca_certs()) == system
    assert len(node_context("https://mm2.example.org").get_ca_certs()) == system


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("ssl.keystore.location = /no/such", r"mm2\.properties:2 ssl\.keystore\.location = /no/such  cannot be read"),
        (
            f"ssl.keystore.type = PEM\nssl.keystore.location = {PEM / 'identity-encrypted.pem'}\nssl.key.password = no",
            "mm2 check .* tells more",
        ),
    ],
)
def test_an_https_node_whose_keys_cannot_be_read(tmp_path: Path, lines: str, sentence: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"listeners = https://:8443\n{lines}\n")
    with pytest.raises(UsageError, match=sentence):
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
def test_the_node_of_this_machine_comes_first(tmp_path: Path, lines: str, urls: list[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(lines)
    assert list(node_urls(str(file))) == urls


def test_a_url_is_the_only_one() -> None:
    assert node_urls("http://mm2:8083/") == ("http://mm2:8083",)


def test_who_may_command_says_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(UsageError, match="there is no environment variable NODE_TOKEN"):
        admin_token(str(file), Environment())


@pytest.mark.parametrize("lines", ["", "mm2.rest.admin = false\nmm2.rest.admin.token = x", "mm2.rest.admin = true"])
def test_a_node_that_takes_no_commands(tmp_path: Path, lines: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(lines)
    with pytest.raises(UsageError, match=r"does not say mm2\.rest\.admin = true and mm2\.rest\.admin\.token"):
        admin_token(str(file), Environment())


def test_a_url_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MM2_REST_ADMIN_TOKEN", raising=False)
    with pytest.raises(UsageError, match=r"set MM2_REST_ADMIN_TOKEN to its mm2\.rest\.admin\.token"):
        admin_token("http://mm2:8083", Environment())


def test_a_proxy_speaks_tls_for_the_node(tmp_path: Path) -> None:
    """There need be no certificate: only whom to trust."""
    file = tmp_path / "mm2.properties"
    trust = f"ssl.truststore.type = PEM\nssl.truststore.location = {PEM / 'ca.pem'}\n"
    file.write_text(f"listeners = http://:8083\nrest.advertised.listener = https\n{trust}")
    assert len(node_context(str(file)).get_ca_certs()) == 1
