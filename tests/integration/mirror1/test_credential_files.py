"""Keytabs and tokens that are replaced while ``kafka-mirror-maker`` runs: it continues without a restart."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.kerberos.clients import LISTENER, keytab_options, lines
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.history import count, read_topic
from tests.lab.identity_provider import IdentityProvider
from tests.lab.kdc import Kdc
from tests.lab.mirror1 import MM2, Mirror1
from tests.lab.node import RUNS_WITHIN
from tests.lab.oauth import oauth_cluster, oauth_login
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

RECORDS = 100
COPIED = RUNS_WITHIN  # a start of Spark included
TICKET_S = 8
SESSION_MS = 3_000
RENEWED = 60.0  # seconds until both processes have new tickets or tokens
TOKEN_S = 45.0  # the process starts meanwhile, also on busy cores
EARLIEST = {"auto.offset.reset": "earliest"}


def copied(target: KafkaCluster, topic: str) -> Callable[[], bool]:
    """Return whether all records that were written in two parts are copied."""
    return lambda: count(read_topic(target.bootstrap, topic)) == 2 * RECORDS


def start_copying(source: KafkaCluster, target: KafkaCluster, topic: str) -> None:
    for cluster in (source, target):
        cluster.create_topic(topic, 1)
    write(source.bootstrap, topic, plain(RECORDS))


@pytest.mark.needs("gssapi")
@pytest.mark.needs("krb5kdc")
@pytest.mark.long  # of a node: tests/integration/kerberos/test_kerberos_node.py
def test_a_keytab_that_is_replaced(start_cluster: StartCluster, cluster_b: KafkaCluster) -> None:
    with Kdc(lifetime=f"{TICKET_S}s") as kdc:
        kdc.add("upstream")
        keytab, topic = kdc.keytab("upstream"), unique_name("orders")
        source = start_cluster("a", **kdc.broker(LISTENER, **{"connections.max.reauth.ms": str(SESSION_MS)}))
        start_copying(source, cluster_b, topic)
        properties = lines(source, keytab_options("upstream", keytab), **EARLIEST)
        properties["sasl.kerberos.min.time.before.relogin"] = "1000"
        env = {"KRB5_CONFIG": str(kdc.krb5_conf), "KRB5CCNAME": "FILE:/none"}
        group = unique_name("mirror")
        with Mirror1(MM2, source, cluster_b, "--include", topic, group=group, consumer=properties, env=env) as mirror:
            wait_until(lambda: count(read_topic(cluster_b.bootstrap, topic)) == RECORDS, COPIED, "the start is copied")
            kdc.keytab("upstream", file=keytab)  # new keys: the old ones are no longer valid
            said = mirror.process.output
            before = said().count("obtained a ticket of")
            wait_until(
                lambda: said().count("obtained a ticket of") >= before + 4,
                RENEWED,
                f"the process and its lane have new tickets: {said()}",
            )
            write(source.bootstrap, topic, plain(RECORDS, first=RECORDS))
            wait_until(copied(cluster_b, topic), COPIED, "the rest is copied")
            assert mirror.stop() == 0
        assert "Traceback" not in said()


@pytest.mark.long  # of a client: tests/integration/kafka/test_oauthbearer.py
def test_a_token_that_is_replaced(cluster_b: KafkaCluster) -> None:
    token, topic, group = scratch.directory("token") / "token", unique_name("orders"), unique_name("mirror")
    with IdentityProvider({}, lifetime=TOKEN_S) as provider, oauth_cluster("A", provider) as source:
        start_copying(source, cluster_b, topic)
        token.write_text(provider.token("reader", lifetime=TOKEN_S))
        properties = {
            "bootstrap.servers": source.bootstrap_of("SASL_PLAINTEXT"),
            **oauth_login(),
            "sasl.oauthbearer.token.endpoint.url": f"file:{token}",
            **EARLIEST,
        }
        with Mirror1(MM2, source, cluster_b, "--include", topic, group=group, consumer=properties) as mirror:
            mirror.process.wait_until_output(
                "write a new token to the file", TOKEN_S + RENEWED, "the token has expired"
            )
            token.write_text(provider.token("reader", lifetime=3_600))
            write(source.bootstrap, topic, plain(RECORDS, first=RECORDS))
            wait_until(copied(cluster_b, topic), COPIED, "everything is copied")
            assert mirror.stop() == 0
