"""The topics of a source, as a broker answers."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka.admin import AclOperation

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.mirror1.topics import SourceTopics
from tests.integration.guarded.permissions import PASSWORD, USER, add, allowed
from tests.integration.kafka.clients import connected
from tests.lab.fixtures import StartCluster
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.waiting import until

LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
VISIBLE = 30.0  # seconds until an ACL is effective


async def test_topics_that_cannot_be_read_are_told_apart(
    start_cluster: StartCluster, unique: Callable[[str], str]
) -> None:
    kafka = start_cluster(listeners=(LISTENER,), users={USER: PASSWORD}, properties=AUTHORIZER)
    shown, hidden, deleted = (
        kafka.create_topic(unique("shown"), 2),
        kafka.create_topic(unique("hidden")),
        unique("gone"),
    )
    for topic in (shown, deleted):
        add(kafka, allowed(AclOperation.READ, topic))
    login = PasswordLogin(mechanism=SaslMechanism.PLAIN, username=USER, password=PASSWORD)
    secured = {"security_protocol": SecurityProtocol.SASL_PLAINTEXT, "sasl": login}
    async with connected(kafka, LISTENER.label, **secured) as cluster:
        topics = SourceTopics(cluster, lambda _: True, exclude_internal=True)
        names = {shown, hidden, deleted}

        async def counted() -> bool:
            return await topics.counts(names) == {shown: 2}

        await until(counted, VISIBLE, "the ACLs are effective")
        found = await topics.look_up(names)
        doing = "cannot read the metadata of topic"
        assert str(found[hidden]) == (
            f"{doing} {hidden} on the source: TOPIC_AUTHORIZATION_FAILED; requires READ on topic {hidden}"
        )
        assert str(found[deleted]) == f"{doing} {deleted} on the source: UNKNOWN_TOPIC_OR_PARTITION"
