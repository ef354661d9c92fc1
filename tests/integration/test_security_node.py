"""A complete node with SASL_SSL on both clusters: rejected, then accepted, and no secret is revealed anywhere."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.integration.security import KEY_PASSWORD, create_user, encrypted, sasl_tls, two_clusters
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.listeners import Listener
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # the first test waits for the node, which is rejected and accepted twice

SCRAM_512 = SaslMechanism.SCRAM_SHA_512
PASSWORD_OF_A, PASSWORD_OF_B = "first = sesame;1", "second = sesame;2"
PROVIDED = "fourth-sesame-4"  # what a config provider returns for a setting of Spark whose name says nothing
SPARK_SECRET = "third sesame 3"  # a custom secret that Spark needs, such as for the storage of its event log
RECORDS = 500
SOON = 60.0  # seconds: a rejected login is retried at least every 10 s, on two shared cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """A running node, its responses while a cluster rejected it, and all secrets in its file."""

    node: Node
    a: KafkaCluster
    b: KafkaCluster
    rejected_by_b: httpx.Response
    rejected_by_a: httpx.Response
    reasons_while_starting: frozenset[str]
    secrets: Mapping[str, str]
    temp: Path

    def found_in(self, text: str) -> list[str]:
        """Return the names of the secrets that ``text`` reveals, literally or as escaped in JSON and properties."""
        plain_text = text.replace("\\n", "\n").replace("\\=", "=").replace('\\"', '"')
        return [name for name, secret in self.secrets.items() if secret in text or secret in plain_text]


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """First B rejects the password, then A does not know the user, then both accept the node."""
    listeners = (Listener(protocol=SecurityProtocol.SASL_SSL, mechanisms=(SCRAM_512,)),)
    temp = scratch.directory("temp")
    with (
        KafkaCluster("a", listeners=listeners, users={"somebody": "else"}) as a,
        KafkaCluster("b", listeners=listeners, users={"mirror": "another password"}) as b,
    ):
        a.create_topic("orders", 2)
        write(a.bootstrap, "orders", plain(RECORDS, partitions=2), codec="lz4")
        bob = b.authority.client("bob")
        provided = scratch.directory("provided")
        (provided / "value").write_text(PROVIDED)
        file = two_clusters(
            sasl_tls(a, SCRAM_512, user="mirror", password=PASSWORD_OF_A),
            {
                **sasl_tls(b, SCRAM_512, user="mirror", password=PASSWORD_OF_B),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": encrypted(bob.key, KEY_PASSWORD),
                "ssl.keystore.certificate.chain": bob.certificate,
                "ssl.key.password": KEY_PASSWORD,
            },
            topics="orders",
            **{"mm2.log.level": "DEBUG", "spark.hadoop.fs.s3a.secret.key": SPARK_SECRET},
            **{
                "config.providers": "dir",
                "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
                "spark.hadoop.example.name": f"${{dir:{provided}:value}}",
            },
        )
        with Node(file, name="secured-node", env={"TMPDIR": str(temp)}) as node:
            node.wait_answering()
            rejected_by_b = _health_with_reason(node, "B.sasl.jaas.config")
            create_user(b, "mirror", PASSWORD_OF_B)
            rejected_by_a = _health_with_reason(node, "A.sasl.jaas.config")
            create_user(a, "mirror", PASSWORD_OF_A)
            reasons = _reasons_until_running(node)
            yield Secured(
                node=node,
                a=a,
                b=b,
                rejected_by_b=rejected_by_b,
                rejected_by_a=rejected_by_a,
                reasons_while_starting=reasons,
                secrets={
                    "password of A": PASSWORD_OF_A,
                    "password of B": PASSWORD_OF_B,
                    "password of the key": KEY_PASSWORD,
                    "private key": file["B.ssl.keystore.key"].splitlines()[5],
                    "Spark's secret": SPARK_SECRET,
                    "Spark's setting of a config provider": PROVIDED,
                },
                temp=temp,
            )


def _health_with_reason(node: Node, words: str) -> httpx.Response:
    """Wait until a reason in /health contains ``words``, and return the response."""

    def seen() -> httpx.Response | None:
        answer = node.get("/health")
        reasons = [] if answer is None else answer.json()["reasons"]
        return answer if any(words in reason for reason in reasons) else None

    answer = wait_until(seen, SOON, f"/health names {words}")
    assert answer is not None
    return answer


def _reasons_until_running(node: Node) -> frozenset[str]:
    """Return all reasons in /health until the node is healthy."""
    reasons: set[str] = set()

    def well() -> bool:
        health = node.health()
        reasons.update(health.get("reasons", ()))
        return bool(health) and health["status"] == "UP"

    wait_until(well, SOON, "the node is accepted and runs")
    return frozenset(reasons)


def test_rejected_password_is_reported_with_property_and_cluster(secured: Secured) -> None:
    (reason,) = secured.rejected_by_b.json()["reasons"]
    assert secured.rejected_by_b.status_code == 503
    assert "cluster B" in reason
    assert "SASL SCRAM-SHA-512: authentication of user mirror failed" in reason
    assert reason.endswith("check B.sasl.jaas.config")


def test_unknown_user_of_the_source_is_reported(secured: Secured) -> None:
    assert secured.rejected_by_a.status_code == 503
    assert any(
        "cluster A" in reason and "authentication of user mirror failed" in reason
        for reason in secured.rejected_by_a.json()["reasons"]
    )


def test_node_that_waits_always_gives_a_reason(secured: Secured) -> None:
    assert not any("no reason given" in reason for reason in secured.reasons_while_starting)


def test_node_recovers_and_copies(secured: Secured) -> None:
    verdict = wait_until_copied((secured.a.bootstrap, "orders"), (secured.b.bootstrap, "A.orders"), SOON)
    assert verdict.records == RECORDS
    well = {"status": "UP", "reasons": []}
    wait_until(lambda: secured.node.health() == well, SOON, "the node reports no problem any more")


def test_certificates_that_brokers_have_shown(secured: Secured) -> None:
    answer = secured.node.get("/node")
    assert answer is not None
    shown = {(one["cluster"], one["kind"]): one for one in answer.json()["certificates"]}
    of_cluster = {"A": secured.a, "B": secured.b}
    kinds = {("A", "broker"), ("A", "trusted"), ("B", "broker"), ("B", "trusted"), ("B", "own")}
    assert shown.keys() == kinds
    for (alias, kind), one in shown.items():
        ends = secured.node.metric("mm2_certificate_expiry_seconds", cluster=alias, kind=kind)
        assert ends == one["expires"] / 1000
        if kind == "trusted":
            authority = x509.load_pem_x509_certificate(of_cluster[alias].authority.ca_pem.encode())
            assert ends == authority.not_valid_after_utc.timestamp()
        elif kind == "broker":
            assert one["broker"] == f"broker {of_cluster[alias].bootstrap_of('SASL_SSL')}"
    assert "CN=bob" in shown["B", "own"]["subject"]


def test_no_secret_in_rest(secured: Secured) -> None:
    pages = ("/health", "/health/live", "/flows", "/metrics", "/docs", "/openapi.json")
    answers = {page: secured.node.get(page) for page in pages}
    assert all(answer is not None and answer.status_code == 200 for answer in answers.values()), answers
    for page, answer in (*answers.items(), ("while refused", secured.rejected_by_b)):
        assert answer is not None
        assert secured.found_in(answer.text) == [], page


def test_no_secret_in_output_of_commands(secured: Secured) -> None:
    file = str(secured.node.file)
    for command in (("check", file), ("explain", file), ("explain", file, "--flow", "A->B"), ("status", file)):
        outcome = run("mm2", *command)
        assert outcome.code == 0, outcome
        assert secured.found_in(outcome.stdout + outcome.stderr) == [], command
    explained = run("mm2", "explain", file).stdout
    assert "sasl.jaas.config" in explained
    assert "[hidden]" in explained


def test_no_secret_in_command_lines_and_environments(secured: Secured) -> None:
    """All local users can read command lines. The environment is checked too, although it is private."""
    family = secured.node.family()
    assert {role for role in ("node", "engine", "jvm", "worker") if secured.node.members(role)} == {
        "node",
        "engine",
        "jvm",
        "worker",
    }
    for process in family:
        assert secured.found_in("\n".join(process.cmdline())) == [], process
        assert secured.found_in(json.dumps(process.environ())) == [], process


def test_no_secret_in_files_of_the_node(secured: Secured) -> None:
    files = [path for path in secured.temp.rglob("*") if path.is_file()]
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # the node runs, and has deleted it meanwhile
            assert secured.found_in(path.read_bytes().decode(errors="replace")) == [], path


def test_no_secret_in_the_spark_ui(secured: Secured) -> None:
    """Checks the HTML pages and the REST interface, and that the checked pages exist."""
    ui = wait_until(secured.node.spark_ui, SOON, "the Spark UI answers")
    (application,) = httpx.get(f"{ui}/api/v1/applications", timeout=SOON).json()
    own = f"/api/v1/applications/{application['id']}"
    pages = ("/environment/", "/jobs/", "/stages/", "/executors/", f"{own}/environment", f"{own}/jobs", f"{own}/stages")
    texts = {page: httpx.get(ui + page, timeout=SOON).raise_for_status().text for page in pages}
    assert "spark.hadoop.fs.s3a.secret.key" in texts[f"{own}/environment"], "Spark received the secret"
    assert "spark.hadoop.example.name" in texts[f"{own}/environment"], "Spark received the setting"
    for page, text in texts.items():
        assert secured.found_in(text) == [], page


def test_no_secret_in_the_log_down_to_debug(secured: Secured) -> None:
    """Must be the last test: after the drain the log covers the complete run, including both rejected logins."""
    assert secured.node.stop() == 0
    output = secured.node.process.output()
    assert "DEBUG" in output
    assert secured.found_in(output) == []
    assert [path for path in secured.temp.iterdir() if path.name.startswith("mm2-")] == [], "the temp dir is removed"
