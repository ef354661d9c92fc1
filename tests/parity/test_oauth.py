"""OAUTHBEARER: Java's MirrorMaker 2 and mm2 log in with the same file."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.integration.security import two_clusters
from tests.lab import scratch
from tests.lab.identity_provider import IdentityProvider, pem_of
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.node import Node
from tests.lab.oauth import LISTENER, allowed, oauth_cluster, oauth_login
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied

pytestmark = [
    pytest.mark.long,  # tests/integration/test_oauth_node.py logs in with a node
    pytest.mark.timeout(400),  # two brokers, Java's MirrorMaker and a node, one after the other
]

SECRET = "sesame"
JWT_BEARER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
COPIED = 120.0
RECORDS = 200


def test_one_file_for_both() -> None:
    """A secret on A, a signed assertion on B; the keys are those of Kafka's documentation."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    directory = scratch.directory("assertion")
    (directory / "key.pem").write_text(pem_of(key))
    (directory / "template.json").write_text(json.dumps({"header": {"kid": "1"}, "payload": {"sub": "writer"}}))
    files = [str(directory / name) for name in ("key.pem", "template.json")]
    with (
        IdentityProvider({"reader": SECRET}, signers={"mm2": key.public_key()}) as provider,
        oauth_cluster("A", provider) as a,
        oauth_cluster("B", provider) as b,
    ):
        a.create_topic("orders", 2)
        write(a.bootstrap, "orders", plain(RECORDS, partitions=2), codec="lz4")
        source = {
            "bootstrap.servers": a.bootstrap_of(LISTENER.label),
            **oauth_login({"clientId": "reader", "clientSecret": SECRET, "scope": "kafka"}),
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        }
        assertion = {
            "claim.iss": "mm2",
            "claim.aud": provider.token_url,
            "private.key.file": files[0],
            "template.file": files[1],
        }
        target = {
            "bootstrap.servers": b.bootstrap_of(LISTENER.label),
            **oauth_login(),
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            "sasl.oauthbearer.jwt.retriever.class": JWT_BEARER,
            **{f"sasl.oauthbearer.assertion.{name}": value for name, value in assertion.items()},
        }
        file = two_clusters(source, target, topics="orders")
        options = (
            allowed(provider.token_url),
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={','.join(files)}",
        )
        with JavaMirrorMaker(file, java_options=options) as java:
            wait_until_copied((a.bootstrap, "orders"), (b.bootstrap, "A.orders"), COPIED)
            java.stop()
        of_java = {request.form["grant_type"] for request in provider.requests}
        provider.requests.clear()
        with Node(file, name="after-java") as node:
            node.wait_running()
            write(a.bootstrap, "orders", plain(RECORDS, partitions=2, first=RECORDS), codec="lz4")
            wait_until_copied((a.bootstrap, "orders"), (b.bootstrap, "A.orders"), COPIED)
            assert node.stop() == 0
        assert {request.form["grant_type"] for request in provider.requests} == of_java
        assert len(of_java) == 2
