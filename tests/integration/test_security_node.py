"""A whole node over SASL_SSL on both clusters: shut out, let in, and nowhere does a secret show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mm2.core.client_settings import SaslMechanism, SecurityProtocol
from tests.integration.security import KEY_PASSWORD, encrypted, let_in, sasl_tls, two_clusters
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.listeners import Listener
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # the first test waits for the node, which is shut out and let in twice

SCRAM_512 = SaslMechanism.SCRAM_SHA_512
PASSWORD_OF_A, PASSWORD_OF_B = "first = sesame;1", "second = sesame;2"
SPARK_SECRET = "third sesame 3"  # a key of the user's own that Spark needs, such as of a store for its event log
RECORDS = 500
SOON = 60.0  # seconds: a refused login is tried again at least every ten, on two cores that others use too


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """A running node, what it said while a cluster refused it, and every secret in its file."""

    node: Node
    a: KafkaCluster
    b: KafkaCluster
    refused_by_b: httpx.Response
    refused_by_a: httpx.Response
    said_while_starting: frozenset[str]
    secrets: Mapping[str, str]
    temp: Path

    def found_in(self, text: str) -> list[str]:
        """Names of the secrets that ``text`` gives away, as they are or as JSON and properties write them."""
        plain_text = text.replace("\\n", "\n").replace("\\=", "=").replace('\\"', '"')
        return [name for name, secret in self.secrets.items() if secret in text or secret in plain_text]


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """First B refuses the password, then A does not know the user, then both let the node in."""
    listeners = (Listener(protocol=SecurityProtocol.SASL_SSL, mechanisms=(SCRAM_512,)),)
    temp = scratch.directory("temp")
    with (
        KafkaCluster("a", listeners=listeners, users={"somebody": "else"}) as a,
        KafkaCluster("b", listeners=listeners, users={"mirror": "another password"}) as b,
    ):
        a.create_topic("orders", 2)
        write(a.bootstrap, "orders", plain(RECORDS, partitions=2), codec="lz4")
        bob = b.authority.client("bob")
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
        )
        with Node(file, name="secured-node", env={"TMPDIR": str(temp)}) as node:
            node.wait_answering()
            refused_by_b = _complaint(node, "sasl.jaas.config of B")
            let_in(b, "mirror", PASSWORD_OF_B)
            refused_by_a = _complaint(node, "sasl.jaas.config of A")
            let_in(a, "mirror", PASSWORD_OF_A)
            said = _said_until_running(node)
            yield Secured(
                node=node,
                a=a,
                b=b,
                refused_by_b=refused_by_b,
                refused_by_a=refused_by_a,
                said_while_starting=said,
                secrets={
                    "password of A": PASSWORD_OF_A,
                    "password of B": PASSWORD_OF_B,
                    "password of the key": KEY_PASSWORD,
                    "private key": file["B.ssl.keystore.key"].splitlines()[5],
                    "Spark's secret": SPARK_SECRET,
                },
                temp=temp,
            )


def _complaint(node: Node, words: str) -> httpx.Response:
    """/health as soon as one of its reasons has these words."""

    def seen() -> httpx.Response | None:
        answer = node.get("/health")
        reasons = [] if answer is None else answer.json()["reasons"]
        return answer if any(words in reason for reason in reasons) else None

    answer = wait_until(seen, SOON, f"/health names {words}")
    assert answer is not None
    return answer


def _said_until_running(node: Node) -> frozenset[str]:
    """Every reason that /health gave until the node was well."""
    said: set[str] = set()

    def well() -> bool:
        health = node.health()
        said.update(health.get("reasons", ()))
        return bool(health) and health["status"] == "UP"

    wait_until(well, SOON, "the node is let in and runs")
    return frozenset(said)


def test_a_refused_password_is_said_with_its_key_and_cluster(secured: Secured) -> None:
    (sentence,) = secured.refused_by_b.json()["reasons"]
    assert secured.refused_by_b.status_code == 503
    assert "cluster B" in sentence
    assert "SASL SCRAM-SHA-512: user mirror refused" in sentence
    assert sentence.endswith("check sasl.jaas.config of B")


def test_an_unknown_user_of_the_source_is_said_too(secured: Secured) -> None:
    assert secured.refused_by_a.status_code == 503
    assert any(
        "cluster A" in sentence and "user mirror refused" in sentence
        for sentence in secured.refused_by_a.json()["reasons"]
    )


def test_a_node_that_is_starting_says_what_it_waits_for(secured: Secured) -> None:
    assert any(
        "Spark engine is starting" in reason or "waiting for" in reason for reason in secured.said_while_starting
    )
    assert not any("no reason given" in reason for reason in secured.said_while_starting)


def test_the_node_recovers_by_itself_and_copies(secured: Secured) -> None:
    verdict = wait_until_copied((secured.a.bootstrap, "orders"), (secured.b.bootstrap, "A.orders"), SOON)
    assert verdict.records == RECORDS
    well = {"status": "UP", "reasons": []}
    wait_until(lambda: secured.node.health() == well, SOON, "the node has nothing to complain of any more")


def test_no_secret_in_rest(secured: Secured) -> None:
    pages = ("/health", "/health/live", "/flows", "/metrics", "/docs", "/openapi.json")
    answers = {page: secured.node.get(page) for page in pages}
    assert all(answer is not None and answer.status_code == 200 for answer in answers.values()), answers
    for page, answer in (*answers.items(), ("while refused", secured.refused_by_b)):
        assert answer is not None
        assert secured.found_in(answer.text) == [], page


def test_no_secret_in_what_the_commands_print(secured: Secured) -> None:
    file = str(secured.node.file)
    for command in (("check", file), ("explain", file), ("explain", file, "--flow", "A->B"), ("status", file)):
        outcome = run("mm2", *command)
        assert outcome.code == 0, outcome
        assert secured.found_in(outcome.stdout + outcome.stderr) == [], command
    explained = run("mm2", "explain", file).stdout
    assert "sasl.jaas.config" in explained
    assert "[hidden]" in explained


def test_no_secret_in_command_lines_and_environments(secured: Secured) -> None:
    """Command lines are every local user's to read. The environment is the node's own; it should hold nothing more."""
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
        assert secured.found_in(path.read_bytes().decode(errors="replace")) == [], path


def test_no_secret_in_the_spark_ui(secured: Secured) -> None:
    """Its pages for people and its REST interface. What was looked through is really there."""
    found = re.search(r"Spark UI +(http://\S+)", secured.node.process.output())
    assert found, "the banner names the Spark UI"
    ui = found[1]
    (application,) = httpx.get(f"{ui}/api/v1/applications").json()
    own = f"/api/v1/applications/{application['id']}"
    pages = ("/environment/", "/jobs/", "/stages/", "/executors/", f"{own}/environment", f"{own}/jobs", f"{own}/stages")
    texts = {page: httpx.get(ui + page).raise_for_status().text for page in pages}
    assert "spark.hadoop.fs.s3a.secret.key" in texts[f"{own}/environment"], "Spark was given it"
    for page, text in texts.items():
        assert secured.found_in(text) == [], page


def test_no_secret_in_the_log_down_to_debug(secured: Secured) -> None:
    """Last, when the node has drained: its log holds a whole life, two refusals among it."""
    assert secured.node.stop() == 0
    output = secured.node.process.output()
    assert "DEBUG" in output
    assert secured.found_in(output) == []
    assert [path for path in secured.temp.iterdir() if path.name.startswith("mm2-")] == [], "the temp dir is removed"
