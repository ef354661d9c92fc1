"""A node that the KDC refuses names one clear reason, and the flow recovers by itself when its cause is mended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.kerberos.clients import LISTENER, keytab_options, lines
from tests.integration.security import address_only, two_clusters
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.kdc import REALM, Kdc
from tests.lab.listeners import INTERNAL
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.needs("gssapi"),
    pytest.mark.needs("krb5kdc"),
    pytest.mark.needs("faketime"),
]

TICKET_S = 8  # seconds: a node notices soon that it gets no other
SESSION_MS = 3_000
RECORDS = 100
NOTICED = 60.0  # seconds until a reason is in /health, and until it is gone
COPIED = 60.0
KEY = "check A.sasl.jaas.config"


@pytest.fixture
def kdc() -> Iterator[Kdc]:
    with Kdc(lifetime=f"{TICKET_S}s") as kdc:
        yield kdc


@pytest.mark.long  # the client: test_kerberos_errors.py; a node: test_kerberos_node.py
def test_an_unknown_principal_and_clocks_that_differ(
    kdc: Kdc, cluster_b: KafkaCluster, start_cluster: StartCluster
) -> None:
    kdc.add("late")
    keytab = kdc.keytab("late")
    kdc.delete("late")
    kdc.krb5_conf.write_text(kdc.client_conf(kdc_timesync="0"))  # clients do not correct their clocks by the KDC's
    source = start_cluster("a", **kdc.broker(LISTENER, **{"connections.max.reauth.ms": str(SESSION_MS)}))
    topic = source.create_topic(unique_name("orders"))
    write(source.bootstrap, topic, plain(RECORDS))
    renewal = {"sasl.kerberos.min.time.before.relogin": "1000"}
    file = two_clusters(
        lines(source, keytab_options("late", keytab), **renewal), address_only(cluster_b, INTERNAL), topics=topic
    )
    with Node(file, name="node", env={"KRB5_CONFIG": str(kdc.krb5_conf), "KRB5CCNAME": "FILE:/none"}) as node:
        wait_for_reason(node, f"the KDC does not know the principal late@{REALM}")
        kdc.add("late")
        kdc.keytab("late", file=keytab)
        node.wait_running()
        wait_until_copied((source.bootstrap, topic), (cluster_b.bootstrap, f"A.{topic}"), COPIED)

        kdc.stop()
        kdc.resume(clock="+600s")
        wait_for_reason(node, "the clocks of this host and the KDC differ too much")
        write(source.bootstrap, topic, plain(RECORDS, first=RECORDS))
        kdc.stop()
        kdc.resume()
        node.wait_running(NOTICED)
        wait_until_copied((source.bootstrap, topic), (cluster_b.bootstrap, f"A.{topic}"), COPIED)
        logged = node.process.output()
        assert node.stop() == 0
    assert "Traceback" not in logged


def wait_for_reason(node: Node, words: str) -> None:
    """Wait until /health gives a reason with these words, in one line that names the key."""

    def given() -> list[str]:
        return [reason for reason in node.health().get("reasons", ()) if words in reason]

    wait_until(lambda: bool(given()), NOTICED, f"/health says: {words}")
    for reason in given():
        assert "\n" not in reason
        assert KEY in reason
