"""A node under load whose brokers end SASL sessions every few seconds (KIP-368).

Every connection of the node and of its lanes authenticates again in time: nothing waits, and nothing is repeated.
"""

from __future__ import annotations

import time

import psutil
import pytest

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.integration.security import ALICE, PASSWORD, sasl, two_clusters
from tests.lab.arrivals import Arrivals
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.history import read_topic
from tests.lab.identity_provider import IdentityProvider
from tests.lab.listeners import Listener
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.oauth import oauth_client, oauth_cluster, oauth_login
from tests.lab.token_file import TokenFile
from tests.lab.verify import compare, wait_until_copied
from tests.lab.waiting import require_within

pytestmark = pytest.mark.timeout(300)

SESSION_MS = 3_000
TOKEN_S = 5  # seconds of a token, and so of a session
REPLACED_S = 2.0  # seconds after which the token file is replaced
UNDER_LOAD = 15.0  # seconds: five sessions, or three
PER_SECOND = 1_000
COPIED = 60.0
MANY = 5  # connections that a node has at least: to group coordinators, of its logs, of a lane
LONGEST_PAUSE = 1.5  # seconds; without a second authentication, reconnecting takes about as long on a busy machine
MECHANISM = SaslMechanism.SCRAM_SHA_512
SECRET = "sesame of the writer"


def test_sessions_end_under_load(start_cluster: StartCluster) -> None:
    source, target = (_cluster(start_cluster, name) for name in ("a", "b"))
    require_no_pause(source, target, sasl(source, MECHANISM), sasl(target, MECHANISM))


def test_tokens_expire_under_load() -> None:
    """Those of the source are in a file that another program replaces, those of the target from an endpoint. The flow
    does not restart for a new token."""
    with (
        IdentityProvider({"writer": SECRET}, lifetime=TOKEN_S) as provider,
        oauth_cluster("A", provider) as source,
        oauth_cluster("B", provider) as target,
        TokenFile(provider, "reader", lifetime=TOKEN_S, every=REPLACED_S) as token,
    ):
        reader = {
            "bootstrap.servers": source.bootstrap_of("SASL_PLAINTEXT"),
            **oauth_login(),
            "sasl.oauthbearer.token.endpoint.url": f"file:{token.path}",
        }
        logged = require_no_pause(source, target, reader, oauth_client(target, provider, "writer", SECRET))
        assert token.replaced > UNDER_LOAD / REPLACED_S - 1
    assert f"{token.path} was replaced; it is used for the next token or ticket" in logged
    assert "eyJ" not in logged, "a token is logged"


def require_no_pause(
    source: KafkaCluster, target: KafkaCluster, source_lines: dict[str, str], target_lines: dict[str, str]
) -> str:
    """Run a node under load; fail if records wait, are repeated, or a connection, lane or flow ends. Returns its log
    after the start."""
    topic = source.create_topic(unique_name("orders"), 2)
    with Node(two_clusters(source_lines, target_lines, topics=topic), name="node") as node:
        node.wait_running()
        since = len(node.process.output())
        with (
            Load(source, topic, partitions=2, per_second=PER_SECOND) as load,
            Arrivals(target, f"A.{topic}", partitions=2) as arrivals,
        ):
            arrivals.wait_for_all(time.monotonic(), COPIED)
            began, open_before, workers = time.monotonic(), connections(node, source, target), _workers(node)
            time.sleep(UNDER_LOAD)
            pause, open_after = arrivals.gap(began), connections(node, source, target)
            load.stop()
        wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
        assert node.health()["status"] == "UP"
        assert _workers(node) == workers, "lanes have started again"
        logged = node.process.output()[since:]
        assert node.stop() == 0
    verdict = compare(read_topic(source.bootstrap, topic), read_topic(target.bootstrap, f"A.{topic}"))
    assert verdict.exact, str(verdict)
    assert "WARNING" not in logged, logged
    assert "restarting" not in logged, logged
    assert len(open_before) > MANY
    assert open_before <= open_after, "a broker has closed connections"
    require_within(pause, LONGEST_PAUSE, "records arrive while connections authenticate again")
    return logged


def connections(node: Node, *clusters: KafkaCluster) -> set[tuple[int, int]]:
    """The open connections of the node and its lanes to the brokers, by both ports."""
    brokers = {int(cluster.bootstrap_of("SASL_PLAINTEXT").rpartition(":")[2]) for cluster in clusters}
    me = psutil.Process(node.process.pid)
    return {
        (one.laddr.port, one.raddr.port)
        for process in (me, *me.children(recursive=True))
        for one in process.net_connections()
        if one.status == psutil.CONN_ESTABLISHED and one.raddr.port in brokers
    }


def _workers(node: Node) -> set[int]:
    return {one.pid for one in node.members("worker")}


def _cluster(start_cluster: StartCluster, name: str) -> KafkaCluster:
    return start_cluster(
        name,
        listeners=(Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(MECHANISM,)),),
        users={ALICE: PASSWORD},
        properties={"connections.max.reauth.ms": str(SESSION_MS)},
    )
