"""A node with a ticket cache, whose tickets live for seconds: it renews them with kinit, and another program replaces
them. The flow continues without a restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.kerberos.clients import LISTENER, lines
from tests.integration.security import address_only, two_clusters
from tests.lab import tools
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.history import read_topic
from tests.lab.kdc import REALM, Kdc
from tests.lab.listeners import INTERNAL
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.verify import compare, wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.needs("gssapi"), pytest.mark.needs("krb5kdc")]

FIRST_S = 20  # seconds of the first ticket: the node starts meanwhile, also on busy cores
TICKET_S = 8
SESSION_MS = 3_000
RENEWALS = 3
PER_SECOND = 500
COPIED = 60.0
NOTICED = 30.0  # seconds until a ticket is renewed


@pytest.fixture
def kdc() -> Iterator[Kdc]:
    with Kdc() as kdc:
        yield kdc


@pytest.mark.long  # the client: test_kerberos_errors.py; a node: test_kerberos_node.py
def test_tickets_are_renewed_and_replaced(kdc: Kdc, cluster_b: KafkaCluster, start_cluster: StartCluster) -> None:
    kdc.add("mirror")
    keytab, cache = kdc.keytab("mirror"), kdc.directory / "mirror.cache"
    source = start_cluster("a", **kdc.broker(LISTENER, **{"connections.max.reauth.ms": str(SESSION_MS)}))
    topic = source.create_topic(unique_name("orders"), 2)
    kdc.kinit(keytab, "mirror", cache, "-l", f"{FIRST_S}s", "-r", "1h")
    options = f'useTicketCache=true renewTGT=true ticketCache="{cache}" principal="mirror@{REALM}"'
    renewal = {"sasl.kerberos.kinit.cmd": tools.command("kinit"), "sasl.kerberos.min.time.before.relogin": "1000"}
    file = two_clusters(lines(source, options, **renewal), address_only(cluster_b, INTERNAL), topics=topic)
    with Node(file, name="node", env={"KRB5_CONFIG": str(kdc.krb5_conf), "KRB5CCNAME": "FILE:/none"}) as node:
        node.wait_running()
        renewed = f"renewed the ticket of mirror@{REALM} in {cache}"
        workers = {one.pid for one in node.members("worker")}
        with Load(source, topic, partitions=2, per_second=PER_SECOND) as load:
            kdc.kinit(keytab, "mirror", cache, "-l", f"{TICKET_S}s", "-r", "1h")  # as cron would do
            before = node.process.output().count(renewed)
            wait_until(
                lambda: node.process.output().count(renewed) >= before + RENEWALS,
                FIRST_S + RENEWALS * NOTICED,
                "tickets of seconds are renewed again and again",
            )
            load.stop()
        wait_until_copied((source.bootstrap, topic), (cluster_b.bootstrap, f"A.{topic}"), COPIED)
        assert node.health()["status"] == "UP"
        assert {one.pid for one in node.members("worker")} == workers
        logged = node.process.output()
        assert node.stop() == 0
    verdict = compare(read_topic(source.bootstrap, topic), read_topic(cluster_b.bootstrap, f"A.{topic}"))
    assert verdict.exact, str(verdict)
    assert f"{cache} was replaced; it is used for the next token or ticket" in logged
    assert "restarting" not in logged
    assert "cannot renew the ticket" not in logged
