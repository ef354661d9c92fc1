"""Settings with which lanes cannot run, or that would expose secrets to other machines."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from mm2.config.clients.flow_clients import ClientRole
from tests.unit.config.files import loaded, settings

PEM = Path(__file__).parents[3] / "snapshots" / "config" / "pem"
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
PROTECTED = f"{ENCRYPTED}spark.authenticate = true\nspark.authenticate.secret = sesame\n"
YARN = "spark.master = yarn\n"
KUBERNETES = "spark.master = k8s://https://k8s:6443\n"


def problem_text(directory: Path, lines: str) -> str:
    return "\n".join(map(str, loaded(directory, lines).problems))


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_local_lanes_need_no_listeners(tmp_path: Path, master: str) -> None:
    lines = f"spark.master = {master}\n{PROTECTED if 'spark:' in master else ''}"
    assert problem_text(tmp_path, f"{lines}mm2.lanes = 2\n{SECRET}") == ""
    assert settings(tmp_path, lines).master.url == master


QUERIES = "B->A.enabled = true\n" + "".join(
    f"{flow}.mm2.sql.mask.topics = t\n{flow}.mm2.sql.mask.query = SELECT upper(key) AS value FROM records\n"
    for flow in ("A->B", "B->A")
)


@pytest.mark.parametrize("master", ["local[3]", "local[2,4]", "local"])
def test_a_local_master_with_fewer_threads_than_lanes_has_a_warning(tmp_path: Path, master: str) -> None:
    (warning,) = loaded(tmp_path, f"{QUERIES}spark.master = {master}\nmm2.lanes = 2\n").problems
    assert f"spark.master = {master}: runs" in str(warning)
    assert "up to 2 and 4 for queries are needed (mm2.lanes = 2)" in str(warning)
    assert warning.fix == "remove the line, or write spark.master = local[4]"
    assert problem_text(tmp_path, f"{QUERIES}spark.master = local[4]\nmm2.lanes = 2\n") == ""


def test_local_threads_and_lanes_are_by_default_one_for_each_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert problem_text(tmp_path, "spark.master = local[*]\n") == ""
    assert "runs 8 lanes at the same time, but up to 8 and 16 for queries are needed" in problem_text(
        tmp_path, f"{QUERIES}spark.master = local[*,4]\n"
    )
    assert "runs 7 lanes at the same time, but up to 8 are needed (mm2.lanes = 8, the number of cores)" in problem_text(
        tmp_path, "spark.master = local[7]\n"
    )


def test_lanes_run_in_the_engine_by_default(tmp_path: Path) -> None:
    assert not settings(tmp_path).master.is_cluster


@pytest.mark.parametrize("line", ["spark.remote = sc://spark:15002", "spark.api.mode = Connect"])
def test_spark_connect_is_rejected(tmp_path: Path, line: str) -> None:
    assert f"{line}: not supported: lanes need the SparkContext of the driver" in problem_text(tmp_path, line)


def test_classic_api_mode_is_accepted(tmp_path: Path) -> None:
    assert problem_text(tmp_path, "spark.api.mode = classic\nspark.submit.deployMode = client") == ""


@pytest.mark.parametrize("master", ["spark://spark:7077", "yarn", "k8s://https://127.0.0.1:6443"])
def test_other_machines_need_listeners(tmp_path: Path, master: str) -> None:
    assert f"spark.master = {master}: requires listeners" in problem_text(tmp_path, f"spark.master = {master}\n")


def test_invalid_listeners_are_not_also_reported_as_missing(tmp_path: Path) -> None:
    assert "requires listeners" not in problem_text(tmp_path, f"{CLUSTER}listeners = nonsense\n")


def test_http_is_allowed_without_secrets(tmp_path: Path) -> None:
    assert problem_text(tmp_path, f"{CLUSTER}{PROTECTED}listeners = http://:8083\n") == ""
    assert "spark.master" not in problem_text(
        tmp_path, f"{CLUSTER}{PROTECTED}dedicated.mode.enable.internal.rest = true\n"
    )


@pytest.mark.parametrize("secret", [SECRET, KEY])
def test_secrets_require_an_https_listener(tmp_path: Path, secret: str) -> None:
    assert "requires an https listener" in problem_text(tmp_path, f"{CLUSTER}{secret}listeners = http://:8083\n")


def test_http_is_rejected_if_https_is_not_advertised(tmp_path: Path) -> None:
    both = HTTPS.replace("https://:8443", "http://:8083, https://:8443")
    lines = f"{CLUSTER}{SECRET}{both}{PROTECTED}"
    assert problem_text(tmp_path, lines) == ""
    assert "requires an https listener" in problem_text(tmp_path, f"{lines}rest.advertised.listener = http\n")


HTTP = "listeners = http://:8083\n"
ON_THIS_MACHINE = "spark.master = spark://127.0.0.1:7077\n"


@pytest.mark.parametrize("master", [CLUSTER, ON_THIS_MACHINE])
def test_a_standalone_cluster_without_protection_is_rejected(tmp_path: Path, master: str) -> None:
    """Whether the clusters have passwords or not: who reads a lane's task can copy and read their records."""
    (problem,) = loaded(tmp_path, f"{master}{HTTP}").problems
    assert not problem.is_warning
    assert "requires authentication and encryption" in str(problem)
    added = problem.fix.partition(":\n")[2]
    assert added.split() == PROTECTED.replace("sesame", "SECRET").split()
    assert problem_text(tmp_path, f"{master}{HTTP}{added}") == ""


@pytest.mark.parametrize("missing", PROTECTED.splitlines())
def test_each_part_of_the_protection_is_required(tmp_path: Path, missing: str) -> None:
    lines = PROTECTED.replace(missing, "" if "secret" in missing else missing.replace("true", "false"))
    (problem,) = loaded(tmp_path, f"{CLUSTER}{HTTP}{lines}").problems
    assert not problem.is_warning
    assert problem.fix.partition(":\n")[2].strip() == missing.replace("sesame", "SECRET")


@pytest.mark.parametrize("other", ["spark.authenticate.enableSaslEncryption", "spark.ssl.rpc.enabled"])
def test_other_kinds_of_encryption(tmp_path: Path, other: str) -> None:
    lines = PROTECTED.replace(ENCRYPTED, f"{other} = true\n")
    assert problem_text(tmp_path, f"{CLUSTER}{HTTP}{lines}") == ""
    not_inherited = PROTECTED.replace(ENCRYPTED, "spark.ssl.enabled = true\n")
    assert "requires authentication and encryption" in problem_text(tmp_path, f"{CLUSTER}{HTTP}{not_inherited}")


def test_a_cluster_without_protection_on_purpose(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, f"{CLUSTER}{HTTP}mm2.spark.insecure = true\n").problems
    assert problem.is_warning
    assert "as mm2.spark.insecure is set" in str(problem)
    assert problem_text(tmp_path, f"{CLUSTER}{HTTP}{PROTECTED}mm2.spark.insecure = true\n") == ""
    assert "mm2.spark.insecure = true: has no effect" in problem_text(tmp_path, "mm2.spark.insecure = true\n")


@pytest.mark.parametrize("master", [YARN, KUBERNETES])
def test_spark_itself_protects_applications_of_these_clusters(tmp_path: Path, master: str) -> None:
    assert problem_text(tmp_path, f"{master}{HTTP}") == ""
    switched_off = ENCRYPTED.replace("true", "false")
    assert "requires authentication and encryption" in problem_text(tmp_path, f"{master}{HTTP}{switched_off}")
    assert problem_text(tmp_path, f"{master}{HTTP}{switched_off}spark.ssl.rpc.enabled = true\n") == ""


@pytest.mark.parametrize("master", ["", "spark.master = local[4]\n", f"{YARN}{HTTP}"])
@pytest.mark.parametrize("value", ["false", "no", ""])
def test_authentication_cannot_be_switched_off(tmp_path: Path, master: str, value: str) -> None:
    """Also not with mm2.spark.insecure, which is for clusters."""
    lines = f"{master}mm2.lanes = 1\nspark.authenticate = {value}\n"
    for more in ("", "mm2.spark.insecure = true\n"):
        (problem,) = (one for one in loaded(tmp_path, lines + more).problems if not one.is_warning)
        assert "must be true: otherwise every user of this machine can read the tokens of lanes" in str(problem)
        assert problem.fix == "remove the line"


def test_authentication_on_kubernetes(tmp_path: Path) -> None:
    lines = f"{KUBERNETES}{HTTP}spark.authenticate = false\n"
    assert "requires authentication and encryption" in problem_text(tmp_path, lines)
    assert ": error: " not in problem_text(tmp_path, f"{lines}mm2.spark.insecure = true\n")


@pytest.mark.parametrize("name", ["spark.driver.bindAddress", "spark.driver.host"])
def test_a_local_engine_that_other_machines_can_reach_has_a_warning(tmp_path: Path, name: str) -> None:
    (problem,) = loaded(tmp_path, f"{name} = 0.0.0.0\n").problems
    assert problem.is_warning
    assert f"{name} = 0.0.0.0: opens Spark to other machines" in str(problem)
    assert problem_text(tmp_path, f"{name} = 127.0.0.1\n") == ""
    assert problem_text(tmp_path, f"{CLUSTER}{HTTP}{PROTECTED}{name} = 0.0.0.0\n") == ""


@pytest.mark.parametrize(
    ("lines", "culprit"),
    [
        ("listeners = http://127.0.0.1:8083\n", "listeners = http://127.0.0.1:8083"),
        ("listeners = http://[::1]:8083, https://:8443\nrest.advertised.listener = http\n", "listeners = http://[::1]"),
        ("listeners = http://:8083\nrest.advertised.host.name = localhost\n", "rest.advertised.host.name = localhost"),
    ],
)
def test_loopback_address_is_rejected(tmp_path: Path, lines: str, culprit: str) -> None:
    found = problem_text(tmp_path, CLUSTER + lines)
    assert f"{culprit}" in found
    assert "on their own machine, not to this node" in found


def test_advertised_address_is_checked(tmp_path: Path) -> None:
    lines = "listeners = http://127.0.0.1:8083\nrest.advertised.host.name = node-1\n"
    assert problem_text(tmp_path, CLUSTER + PROTECTED + lines) == ""


def test_lanes_receive_file_contents_instead_of_paths(tmp_path: Path) -> None:
    clients = settings(tmp_path, KEY).flows[0].clients
    passed = json.dumps([asdict(clients.of(role)) for role in ClientRole])
    assert "BEGIN PRIVATE KEY" in passed
    assert str(PEM) not in passed
