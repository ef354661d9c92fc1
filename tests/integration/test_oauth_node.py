"""A complete node with OAUTHBEARER on both clusters: tokens that last for seconds, and an endpoint that is down."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.commands_of_clusters import require_answers
from tests.integration.reauthentication import PARTITIONS, UNDER_LOAD, require_no_pause
from tests.integration.security import two_clusters
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.identity_provider import IdentityProvider
from tests.lab.load import every_shape_load
from tests.lab.node import Node
from tests.lab.oauth import oauth_client, oauth_cluster, oauth_login
from tests.lab.records import plain, write
from tests.lab.token_file import TokenFile
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # two brokers, outages and recoveries

SECRETS = {"reader": "sesame of the reader", "writer": "sesame of the writer"}
LIFETIME = 5.0  # seconds of a token, and so of a session
REPLACED_S = 2.0  # seconds after which the token file is replaced
MANY_SESSIONS = 4 * LIFETIME  # seconds
SOON = 60.0  # seconds until /health names a reason: a failed connection is retried at least every 10 s
COPIED = 60.0
DEBUG = {"mm2.log.level": "DEBUG"}
FILE_LIFETIME = 45.0  # seconds of the token in the file: the node starts meanwhile, also on busy cores


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider(SECRETS, lifetime=LIFETIME) as provider:
        yield provider


@pytest.fixture(scope="module")
def clusters(provider: IdentityProvider) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    with oauth_cluster("A", provider) as a, oauth_cluster("B", provider) as b:
        yield a, b


def file_of(clusters: tuple[KafkaCluster, KafkaCluster], provider: IdentityProvider, topic: str) -> dict[str, str]:
    a, b = clusters
    return two_clusters(
        oauth_client(a, provider, "reader", SECRETS["reader"]),
        oauth_client(b, provider, "writer", SECRETS["writer"]),
        topics=topic,
        **DEBUG,
    )


def has_reason(node: Node, *words: str) -> bool:
    return any(all(word in reason for word in words) for reason in node.health().get("reasons", ()))


@pytest.mark.long  # the test below has fewer sessions, and checks the same of its log
def test_sessions_of_seconds_under_load(
    clusters: tuple[KafkaCluster, KafkaCluster], provider: IdentityProvider, rng: random.Random
) -> None:
    a, b = clusters
    topic = a.create_topic(unique_name("busy"), 3)
    file = file_of(clusters, provider, topic)
    with Node(file, name="oauth-node") as node:
        node.wait_running()
        before = len(provider.requests)
        with every_shape_load(a, {topic: (3, "lz4")}, rng) as load:
            time.sleep(MANY_SESSIONS)  # sessions end and are renewed all the time
            load.stop()
        requests = len(provider.requests) - before
        wait_until_copied((a.bootstrap, topic), (b.bootstrap, f"A.{topic}"), COPIED)
        assert node.stop() == 0
        logged = node.process.output()
        source = oauth_client(a, provider, "reader", SECRETS["reader"])
        require_answers(node, a, topic, source, {})
    assert {request.client for request in provider.requests} == set(SECRETS)
    # the node and one lane, with a login for each cluster: two tokens in each period, and a few more at the start
    assert 2 * MANY_SESSIONS / LIFETIME <= requests <= 8 * MANY_SESSIONS / LIFETIME
    assert not [line for line in logged.splitlines() if "closed the connection" in line or "rejected the token" in line]
    assert not [secret for secret in SECRETS.values() if secret in logged]
    assert "eyJ" not in logged, "a token is logged"


@pytest.mark.long  # tests/integration/kafka/test_oauthbearer.py
def test_tokens_that_expire_and_an_endpoint_that_is_down(
    clusters: tuple[KafkaCluster, KafkaCluster], provider: IdentityProvider
) -> None:
    """Tokens of the source are in a file that another program replaces, those of the target come from an endpoint. The
    endpoint is down at the start of the node, and later for longer than tokens are valid."""
    a, b = clusters
    topic = a.create_topic(unique_name("patient"), PARTITIONS)
    write(a.bootstrap, topic, plain(200, partitions=PARTITIONS), codec="lz4")
    with (
        IdentityProvider(SECRETS, lifetime=LIFETIME) as other,
        TokenFile(provider, "reader", lifetime=LIFETIME, every=REPLACED_S) as token,
    ):
        other._keys = provider._keys  # those that brokers know
        source, target = _of_file(a, token.path), oauth_client(b, other, "writer", SECRETS["writer"])
        other.stop()
        with Node(two_clusters(source, target, topics=topic, **DEBUG), name="oauth-patient") as node:
            node.wait_answering()
            words = (f"token endpoint {other.token_url}", "refused", ".sasl.oauthbearer.token.endpoint.url")
            wait_until(lambda: has_reason(node, *words), SOON, "/health names the endpoint")
            other.start()
            node.wait_running()
            copies = (a.bootstrap, topic), (b.bootstrap, f"A.{topic}")
            wait_until_copied(*copies, COPIED)

            replaced = token.replaced
            logged = require_no_pause(node, a, b, topic)
            assert token.replaced - replaced > UNDER_LOAD / REPLACED_S - 1
            assert f"{token.path} was replaced; it is used for the next token or ticket" in logged

            other.stop()
            time.sleep(LIFETIME)  # the last sessions end
            write(a.bootstrap, topic, plain(200, partitions=PARTITIONS, first=200), codec="lz4")
            wait_until(lambda: not node.healthy, SOON, "/health reports that the flow cannot log in")
            other.start()
            node.wait_running()
            wait_until_copied(*copies, COPIED, repeats_allowed=True)  # an outage that outlives the membership
            assert node.stop() == 0
            require_answers(node, a, topic, source, {})
        assert {request.client for request in other.requests} == {"writer"}
    output = node.process.output()
    assert not [secret for secret in SECRETS.values() if secret in output]
    assert "eyJ" not in output, "a token is logged"


def _of_file(cluster: KafkaCluster, token: Path) -> dict[str, str]:
    """Return the properties of a client with a token in a file."""
    return {
        "bootstrap.servers": cluster.bootstrap_of("SASL_PLAINTEXT"),
        **oauth_login(),
        "sasl.oauthbearer.token.endpoint.url": f"file:{token}",
    }


@pytest.mark.long  # a file that is replaced in time: the test above
def test_a_token_file_that_is_replaced(clusters: tuple[KafkaCluster, KafkaCluster], provider: IdentityProvider) -> None:
    a, b = clusters
    topic = a.create_topic(unique_name("rotated"), 1)
    token = scratch.directory("token") / "token"
    token.write_text(provider.token("reader", lifetime=FILE_LIFETIME))
    lines = _of_file(a, token)
    target = oauth_client(b, provider, "writer", SECRETS["writer"])
    with Node(two_clusters(lines, target, topics=topic), name="oauth-file") as node:
        expired = FILE_LIFETIME + SOON
        wait_until(lambda: has_reason(node, "write a new token to the file"), expired, "/health says that it expired")
        token.write_text(provider.token("reader", lifetime=3_600))
        write(a.bootstrap, topic, plain(100), codec="lz4")
        node.wait_running()
        wait_until_copied((a.bootstrap, topic), (b.bootstrap, f"A.{topic}"), COPIED)
        assert node.stop() == 0
