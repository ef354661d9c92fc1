"""A complete node with OAUTHBEARER on both clusters: tokens that last for seconds, and an endpoint that is down."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from tests.integration.commands_of_clusters import require_answers
from tests.integration.security import two_clusters
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.identity_provider import IdentityProvider
from tests.lab.load import every_shape_load
from tests.lab.node import Node
from tests.lab.oauth import oauth_client, oauth_cluster, oauth_login
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # the first test starts two brokers, and waits for outages and recoveries

SECRETS = {"reader": "sesame of the reader", "writer": "sesame of the writer"}
LIFETIME = 5.0  # seconds of a token, and so of a session
UNDER_LOAD = 4 * LIFETIME
SOON = 60.0  # seconds until /health names a reason: a failed connection is retried at least every 10 s
COPIED = 60.0
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
        **{"mm2.log.level": "DEBUG"},
    )


def has_reason(node: Node, *words: str) -> bool:
    return any(all(word in reason for word in words) for reason in node.health().get("reasons", ()))


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
            time.sleep(UNDER_LOAD)  # sessions end and are renewed all the time
            load.stop()
        requests = len(provider.requests) - before
        wait_until_copied((a.bootstrap, topic), (b.bootstrap, f"A.{topic}"), COPIED)
        assert node.stop() == 0
        logged = node.process.output()
        source = oauth_client(a, provider, "reader", SECRETS["reader"])
        require_answers(node, a, topic, source, {})
    assert {request.client for request in provider.requests} == set(SECRETS)
    # the node and one lane, with a login for each cluster: two tokens in each period, and a few more at the start
    assert 2 * UNDER_LOAD / LIFETIME <= requests <= 8 * UNDER_LOAD / LIFETIME
    assert not [line for line in logged.splitlines() if "closed the connection" in line or "rejected the token" in line]
    assert not [secret for secret in SECRETS.values() if secret in logged]
    assert "eyJ" not in logged, "a token is logged"


def test_an_endpoint_that_is_down(clusters: tuple[KafkaCluster, KafkaCluster], provider: IdentityProvider) -> None:
    """At the start of the node, and later for longer than tokens are valid."""
    a, b = clusters
    topic = a.create_topic(unique_name("patient"), 2)
    write(a.bootstrap, topic, plain(200, partitions=2), codec="lz4")
    with IdentityProvider(SECRETS, lifetime=LIFETIME) as other:
        other._keys = provider._keys  # those that brokers know
        file = file_of(clusters, other, topic)
        other.stop()
        with Node(file, name="oauth-patient") as node:
            node.wait_answering()
            words = (f"token endpoint {other.token_url}", "refused", ".sasl.oauthbearer.token.endpoint.url")
            wait_until(lambda: has_reason(node, *words), SOON, "/health names the endpoint")
            other.start()
            node.wait_running()
            wait_until_copied((a.bootstrap, topic), (b.bootstrap, f"A.{topic}"), COPIED)
            other.stop()
            time.sleep(LIFETIME)  # the last sessions end
            write(a.bootstrap, topic, plain(200, partitions=2, first=200), codec="lz4")
            wait_until(lambda: not node.healthy, SOON, "/health reports that the flow cannot log in")
            other.start()
            node.wait_running()
            copies = (a.bootstrap, topic), (b.bootstrap, f"A.{topic}")
            wait_until_copied(*copies, COPIED, repeats_allowed=True)  # an outage that outlives the membership
            assert node.stop() == 0


def test_a_token_file_that_is_replaced(clusters: tuple[KafkaCluster, KafkaCluster], provider: IdentityProvider) -> None:
    a, b = clusters
    topic = a.create_topic(unique_name("rotated"), 1)
    token = scratch.directory("token") / "token"
    token.write_text(provider.token("reader", lifetime=FILE_LIFETIME))
    lines = {
        "bootstrap.servers": a.bootstrap_of("SASL_PLAINTEXT"),
        **oauth_login(),
        "sasl.oauthbearer.token.endpoint.url": f"file:{token}",
    }
    target = oauth_client(b, provider, "writer", SECRETS["writer"])
    with Node(two_clusters(lines, target, topics=topic), name="oauth-file") as node:
        expired = FILE_LIFETIME + SOON
        wait_until(lambda: has_reason(node, "write a new token to the file"), expired, "/health says that it expired")
        token.write_text(provider.token("reader", lifetime=3_600))
        write(a.bootstrap, topic, plain(100), codec="lz4")
        node.wait_running()
        wait_until_copied((a.bootstrap, topic), (b.bootstrap, f"A.{topic}"), COPIED)
        assert node.stop() == 0
