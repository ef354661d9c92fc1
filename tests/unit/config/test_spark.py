"""What lanes cannot run with, and what would give secrets away when they run on other machines."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from mm2.config.flow_clients import ClientRole
from tests.unit.config.files import loaded, settings

PEM = Path(__file__).parents[2] / "golden" / "config" / "pem"
CLUSTER = "spark.master = spark://spark:7077\n"
SECRET = (
    "B.security.protocol = SASL_SSL\nB.sasl.mechanism = PLAIN\nB.sasl.jaas.config = "
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";\n'
)
KEY = f"B.security.protocol = SSL\nB.ssl.keystore.type = PEM\nB.ssl.keystore.location = {PEM / 'identity.pem'}\n"
HTTPS = (
    "listeners = https://:8443\nlisteners.https.ssl.keystore.type = PEM\n"
    f"listeners.https.ssl.keystore.location = {PEM / 'identity.pem'}\n"
)
ENCRYPTED = "spark.network.crypto.enabled = true\n"


def said(directory: Path, lines: str) -> str:
    return "\n".join(map(str, loaded(directory, lines).problems))


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_lanes_of_this_machine_need_no_listeners(tmp_path: Path, master: str) -> None:
    assert said(tmp_path, f"spark.master = {master}\n{SECRET}") == ""
    assert settings(tmp_path, f"spark.master = {master}\n").master.url == master


def test_without_a_line_lanes_are_in_the_engine(tmp_path: Path) -> None:
    assert not settings(tmp_path).master.is_cluster


@pytest.mark.parametrize("line", ["spark.remote = sc://spark:15002", "spark.api.mode = Connect"])
def test_spark_connect_is_refused(tmp_path: Path, line: str) -> None:
    assert f"{line}  cannot be honoured: lanes need the driver's own context" in said(tmp_path, line)


def test_the_other_api_mode_is_what_runs_anyway(tmp_path: Path) -> None:
    assert said(tmp_path, "spark.api.mode = classic\nspark.submit.deployMode = client") == ""


@pytest.mark.parametrize("master", ["spark://spark:7077", "yarn", "k8s://https://127.0.0.1:6443"])
def test_other_machines_need_listeners(tmp_path: Path, master: str) -> None:
    assert f"spark.master = {master}  needs listeners" in said(tmp_path, f"spark.master = {master}\n")


def test_listeners_that_cannot_be_read_are_not_missed_as_well(tmp_path: Path) -> None:
    assert "needs listeners" not in said(tmp_path, f"{CLUSTER}listeners = nonsense\n")


def test_clusters_without_secrets_may_be_reached_over_http(tmp_path: Path) -> None:
    assert said(tmp_path, f"{CLUSTER}listeners = http://:8083\n") == ""
    assert "spark.master" not in said(tmp_path, f"{CLUSTER}dedicated.mode.enable.internal.rest = true\n")


@pytest.mark.parametrize("secret", [SECRET, KEY])
def test_secrets_do_not_travel_in_plain_text(tmp_path: Path, secret: str) -> None:
    assert "needs an https listener" in said(tmp_path, f"{CLUSTER}{secret}listeners = http://:8083\n")


def test_http_where_https_is_not_advertised(tmp_path: Path) -> None:
    both = HTTPS.replace("https://:8443", "http://:8083, https://:8443")
    lines = f"{CLUSTER}{SECRET}{both}{ENCRYPTED}"
    assert said(tmp_path, lines) == ""
    assert "needs an https listener" in said(tmp_path, f"{lines}rest.advertised.listener = http\n")


def test_a_token_in_plain_text_is_warned_of(tmp_path: Path) -> None:
    found = said(tmp_path, f"{CLUSTER}{SECRET}{HTTPS}")
    assert found.startswith("warning: ")
    assert "Add spark.network.crypto.enabled = true" in found
    assert said(tmp_path, f"{CLUSTER}{SECRET}{HTTPS}{ENCRYPTED}") == ""
    assert "crypto" in said(tmp_path, f"{CLUSTER}{SECRET}{HTTPS}spark.network.crypto.enabled = false\n")


def test_lanes_have_no_certificate(tmp_path: Path) -> None:
    required = "listeners.https.ssl.client.auth = required\nlisteners.https.ssl.truststore.type = PEM\n"
    required += f"listeners.https.ssl.truststore.location = {PEM / 'ca.pem'}\n"
    assert "Write ssl.client.auth = requested" in said(tmp_path, f"{CLUSTER}{HTTPS}{required}")


@pytest.mark.parametrize(
    ("lines", "culprit"),
    [
        ("listeners = http://127.0.0.1:8083\n", "listeners = http://127.0.0.1:8083"),
        ("listeners = http://[::1]:8083, https://:8443\nrest.advertised.listener = http\n", "listeners = http://[::1]"),
        ("listeners = http://:8083\nrest.advertised.host.name = localhost\n", "rest.advertised.host.name = localhost"),
    ],
)
def test_an_address_that_each_machine_has_for_itself(tmp_path: Path, lines: str, culprit: str) -> None:
    found = said(tmp_path, CLUSTER + lines)
    assert f"{culprit}" in found
    assert "is, for each of them, itself" in found


def test_what_is_advertised_counts(tmp_path: Path) -> None:
    lines = "listeners = http://127.0.0.1:8083\nrest.advertised.host.name = node-1\n"
    assert said(tmp_path, CLUSTER + lines) == ""


def test_what_lanes_are_told_are_contents_of_files_and_not_their_names(tmp_path: Path) -> None:
    clients = settings(tmp_path, KEY).flows[0].clients
    told = json.dumps([asdict(clients.of(role)) for role in ClientRole])
    assert "BEGIN PRIVATE KEY" in told
    assert str(PEM) not in told
