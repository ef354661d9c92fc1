"""A node between two Kerberized clusters, with a principal of its own for each.

Tickets live for seconds, and brokers end sessions (KIP-368): nothing is lost or repeated. The keys of a principal
change, and the KDC stops for longer than tickets live, while the node runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.integration.commands_of_clusters import require_answers
from tests.integration.kerberos.clients import LISTENER, keytab_options, lines
from tests.integration.security import two_clusters
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.history import read_topic
from tests.lab.kdc import Kdc
from tests.lab.listeners import AUTHORIZER
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.verify import compare, wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.needs("gssapi"), pytest.mark.needs("krb5kdc")]

TICKET_S = 8
SESSION_MS = 3_000
UNDER_LOAD = 2.5 * TICKET_S  # seconds: each process renews its tickets at least twice
PER_SECOND = 500
COPIED = 60.0
NOTICED = 60.0  # seconds until an outage is in /health, and until it is over
RENEWAL = {"sasl.kerberos.min.time.before.relogin": "1000"}


@pytest.fixture
def kdc() -> Iterator[Kdc]:
    with Kdc(lifetime=f"{TICKET_S}s") as kdc:
        yield kdc


@pytest.mark.long  # test_kerberos_errors.py
def test_principals_of_source_and_target(kdc: Kdc, start_cluster: StartCluster) -> None:
    kdc.add("upstream", "downstream")
    keytab, other = kdc.keytab("upstream"), kdc.keytab("downstream")
    source, target = (
        start_cluster(
            name,
            **kdc.broker(
                LISTENER,
                **{
                    **AUTHORIZER,
                    "super.users": f"User:ANONYMOUS;User:{user}",  # the other principal may do nothing
                    "connections.max.reauth.ms": str(SESSION_MS),
                },
            ),
        )
        for name, user in (("a", "upstream"), ("b", "downstream"))
    )
    topic = source.create_topic(unique_name("orders"), 2)
    source_lines = lines(source, keytab_options("upstream", keytab), **RENEWAL)
    file = two_clusters(
        source_lines,
        lines(target, keytab_options("downstream", other), **RENEWAL),
        topics=topic,
        **{"B.session.timeout.ms": "60000"},  # longer than the outage: without membership, lanes would repeat records
    )
    env = {"KRB5_CONFIG": str(kdc.krb5_conf), "KRB5CCNAME": "FILE:/none"}
    with Node(file, name="node", env=env) as node:
        node.wait_running()
        renewals = node.process.output().count("obtained a ticket of")
        with Load(source, topic, partitions=2, per_second=PER_SECOND) as load:
            time.sleep(UNDER_LOAD)
            assert node.process.output().count("obtained a ticket of") > renewals + 2
            wait_until(lambda: node.health().get("status") == "UP", NOTICED, "the node is well")

            kdc.keytab("upstream", file=keytab)  # new keys: the old ones are no longer valid
            wait_until(
                lambda: f"{keytab} was replaced; it is used" in node.process.output(), NOTICED, "the new keytab is read"
            )
            time.sleep(TICKET_S)  # all tickets are of the new keys
            node.wait_running()
            assert "restarting" not in node.process.output(), "the flow continues"

            kdc.stop()
            wait_until(lambda: node.health().get("status") != "UP", NOTICED, "/health reports the outage of the KDC")
            wait_until(
                lambda: "no KDC answers for" in str(node.health()), NOTICED, f"the reason is named: {node.health()}"
            )
            kdc.resume()
            node.wait_running(NOTICED)
            load.stop()
        wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
        logged = node.process.output()
        assert node.stop() == 0
        require_answers(node, source, topic, source_lines, env)
    verdict = compare(read_topic(source.bootstrap, topic), read_topic(target.bootstrap, f"A.{topic}"))
    assert verdict.exact, str(verdict)
    assert "Traceback" not in logged
