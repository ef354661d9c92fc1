"""One file with Kerberos for both programs: the real Java MirrorMaker 2 begins a flow, a node continues it."""

from __future__ import annotations

import pytest

from tests.integration.kerberos.clients import LISTENER, keytab_options, lines
from tests.integration.security import two_clusters
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.kdc import LOGIN_MODULE, Kdc
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied

pytestmark = [
    pytest.mark.long,  # tests/integration/kerberos/test_kerberos_node.py logs in with a node
    pytest.mark.timeout(300),
    pytest.mark.needs("gssapi"),
    pytest.mark.needs("krb5kdc"),
]

RECORDS = 200
COPIED = 90.0  # seconds: Java's connectors start after it has reported that it has started


def test_both_programs_read_the_same_login_module(start_cluster: StartCluster) -> None:
    with Kdc() as kdc:
        kdc.add("upstream", "downstream")
        source, target = (start_cluster(name, **kdc.broker(LISTENER)) for name in ("a", "b"))
        topic = source.create_topic(unique_name("orders"))
        options = "doNotPrompt=true useTicketCache=false"
        upstream = lines(source, "")
        del upstream["sasl.jaas.config"]  # the JAAS file of the process is used
        jaas = kdc.directory / "jaas.conf"
        jaas.write_text(
            f"KafkaClient {{\n  {LOGIN_MODULE} required\n  {keytab_options('upstream', kdc.keytab('upstream'))}"
            f"\n  {options};\n}};\n"
        )
        downstream = lines(target, f"{keytab_options('downstream', kdc.keytab('downstream'))} {options}")
        file = two_clusters(upstream, downstream, topics=topic)
        java_options = (*kdc.java_options, f"-Djava.security.auth.login.config={jaas}")
        copies = (source.bootstrap, topic), (target.bootstrap, f"A.{topic}")
        write(source.bootstrap, topic, plain(RECORDS))
        with JavaMirrorMaker(file, java_options=java_options) as java:
            wait_until_copied(*copies, COPIED)
            java.stop()
        write(source.bootstrap, topic, plain(RECORDS, first=RECORDS))
        with Node(file, name="node", env={"KAFKA_OPTS": " ".join(java_options)}) as node:
            node.wait_running()
            wait_until_copied(*copies, COPIED)
            assert node.stop() == 0
