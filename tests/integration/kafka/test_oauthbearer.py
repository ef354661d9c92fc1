"""OAUTHBEARER on a broker that validates signed tokens: all grants, renewals, and what fails."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from aiokafka.protocol.metadata import MetadataRequest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from mm2.config.clients.flow_clients import ClientRole
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import AuthenticationRefused
from mm2.kafka.sasl import logins
from tests.integration.security import flow_of, two_clusters
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.identity_provider import IdentityProvider, pem_of
from tests.lab.listeners import Authority
from tests.lab.oauth import FAILING, UNSIGNED, oauth_client, oauth_cluster, oauth_login
from tests.lab.waiting import until

SECRET = "sesame/for+oauth"
RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC = ec.generate_private_key(ec.SECP256R1())
EXPIRES_IN = 6.0  # seconds; sessions of tests about renewals
RECOVERS = 60.0  # seconds: longer than any backoff, on a busy machine


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[IdentityProvider, KafkaCluster]]:
    with IdentityProvider() as provider, oauth_cluster("A", provider) as cluster:
        yield provider, cluster


@pytest.fixture
def provider(running: tuple[IdentityProvider, KafkaCluster]) -> Iterator[IdentityProvider]:
    """The identity provider as a test expects it; no token of another test is used."""
    provider = running[0]
    provider.clients = {"mm2": SECRET}
    provider.signers = {"mm2-rsa": RSA.public_key(), "mm2-ec": EC.public_key()}
    provider.lifetime, provider.audience, provider.status = 3_600, "kafka", None
    provider.requests.clear()
    logins.login_of.cache_clear()
    yield provider
    provider.hang.clear()


@pytest.fixture
def kafka(running: tuple[IdentityProvider, KafkaCluster]) -> KafkaCluster:
    return running[1]


def client_of(lines: Mapping[str, str]) -> ClientSettings:
    """The client that a file with these lines has; quick to reconnect."""
    flow = flow_of(two_clusters(lines, {"bootstrap.servers": "127.0.0.1:1"}))
    return replace(flow.clients.of(ClientRole.REPLICATION_CONSUMER, 0), reconnect_backoff_ms=10)


async def connect(client: ClientSettings) -> None:
    async with Cluster(client) as cluster:
        await cluster.send(await cluster.any_node(), MetadataRequest([]))


def file(content: str, name: str = "file") -> str:
    path = scratch.directory("oauth") / name
    path.write_text(content)
    return str(path)


async def test_client_secret(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    await connect(client_of(oauth_client(kafka, provider, "mm2", SECRET, **{"sasl.oauthbearer.scope": "kafka"})))
    (request,) = provider.requests
    assert request.client == "mm2"
    assert request.form == {"grant_type": "client_credentials", "scope": "kafka"}


async def test_secret_and_scope_of_the_login_module(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    options = {"clientId": "mm2", "clientSecret": SECRET, "scope": "a b", "extension_logicalCluster": "lkc-1"}
    lines = oauth_client(kafka, provider, "mm2", SECRET, **oauth_login(options))
    for part in ("id", "secret"):
        del lines[f"sasl.oauthbearer.client.credentials.client.{part}"]
    client = client_of({**lines, "sasl.oauthbearer.header.urlencode": "true"})
    await connect(client)
    assert provider.requests[0].form["scope"] == "a b"
    assert SECRET not in repr(client)


@pytest.mark.parametrize(("issuer", "key", "algorithm"), [("mm2-rsa", RSA, "RS256"), ("mm2-ec", EC, "ES256")])
@pytest.mark.parametrize("retriever", ["JwtBearerJwtRetriever", "ClientCredentialsJwtRetriever"])
async def test_assertions(
    provider: IdentityProvider,
    kafka: KafkaCluster,
    retriever: str,
    issuer: str,
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    algorithm: str,
) -> None:
    assertion = {
        "private.key.file": file(pem_of(key)),
        "algorithm": algorithm,
        "claim.iss": issuer,
        "claim.aud": provider.token_url,
        "claim.jti.include": "true",
        "template.file": file(json.dumps({"header": {"kid": "k1"}, "payload": {"sub": "mirror"}})),
    }
    lines = {
        "bootstrap.servers": kafka.bootstrap_of("SASL_PLAINTEXT"),
        **oauth_login(),
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.jwt.retriever.class": f"org.apache.kafka.common.security.oauthbearer.{retriever}",
        **{f"sasl.oauthbearer.assertion.{name}": value for name, value in assertion.items()},
    }
    await connect(client_of(lines))
    assert len(provider.requests) == 1


async def test_token_file(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    lines = {
        "bootstrap.servers": kafka.bootstrap_of("SASL_PLAINTEXT"),
        **oauth_login(),
        "sasl.oauthbearer.token.endpoint.url": f"file:{file(provider.token('mm2'))}",
    }
    await connect(client_of(lines))
    assert not provider.requests


async def test_unsigned_tokens(kafka: KafkaCluster, provider: IdentityProvider) -> None:
    lines = oauth_login({"unsecuredLoginStringClaim_sub": "mm2", "unsecuredLoginListClaim_scope": "|a|b"})
    del lines["sasl.login.callback.handler.class"]
    await connect(client_of({**lines, "bootstrap.servers": kafka.bootstrap_of(UNSIGNED.label)}))
    with pytest.raises(AuthenticationRefused, match=r"the broker rejected the token: invalid_token: check issuer"):
        await connect(client_of({**lines, "bootstrap.servers": kafka.bootstrap_of("SASL_PLAINTEXT")}))


async def test_https_with_the_options_of_the_login_module(running: tuple[IdentityProvider, KafkaCluster]) -> None:
    """The keys of the token are those of the provider that brokers know."""
    known, kafka = running
    authority = Authority()
    pems = authority.write_server_pems(scratch.directory("https"))
    with IdentityProvider({"mm2": SECRET}, certificate=pems.keystore) as provider:
        provider._keys = known._keys
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(pems.truststore)}
        await connect(client_of(oauth_client(kafka, provider, "mm2", SECRET, **oauth_login(trusted))))
        with pytest.raises(AuthenticationRefused, match=r"token endpoint https:.*certificate verify failed"):
            await connect(client_of(oauth_client(kafka, provider, "mm2", SECRET)))


async def test_one_token_for_all_connections(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    client = client_of(oauth_client(kafka, provider, "mm2", SECRET))
    await asyncio.gather(*(connect(replace(client, client_id=f"c{number}")) for number in range(10)))
    assert len(provider.requests) == 1


async def test_wrong_secret(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    client = client_of(
        oauth_client(kafka, provider, "mm2", "wrong-secret", **{"sasl.login.retry.backoff.max.ms": "120000"})
    )
    with pytest.raises(AuthenticationRefused) as raised:
        await connect(client)
    text = str(raised.value)
    assert f"token endpoint {provider.token_url}: 401 invalid_client: Invalid client" in text
    assert "check A.sasl.oauthbearer.client.credentials.*" in text
    assert "wrong-secret" not in text
    for _ in range(5):
        with pytest.raises(AuthenticationRefused, match="invalid_client"):
            await connect(client)
    assert len(provider.requests) == 1, "the identity provider could lock the account"


async def recovers(client: ClientSettings) -> None:
    """Connect, at the first attempt or a later one."""

    async def attempt() -> AuthenticationRefused | None:
        try:
            await connect(client)
        except AuthenticationRefused as error:
            return error
        return None

    await until(attempt, RECOVERS, "the client logs in", accept=lambda error: error is None)


async def test_rejected_token(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    provider.audience = "other"
    client = client_of(oauth_client(kafka, provider, "mm2", SECRET))
    with pytest.raises(AuthenticationRefused, match=r"rejected the token of user mm2: invalid_token: .*A\.sasl\.oauth"):
        await connect(client)
    provider.audience = "kafka"
    await recovers(client)


async def test_token_that_is_rejected_without_a_challenge(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    """Invariant C: it is replaced, too, with backoff."""
    lines = oauth_client(kafka, provider, "mm2", SECRET)
    client = client_of({**lines, "bootstrap.servers": kafka.bootstrap_of(FAILING.label)})

    async def requests() -> int:
        with pytest.raises(AuthenticationRefused, match="invalid credentials with SASL mechanism"):
            await connect(client)
        return len(provider.requests)

    await until(requests, RECOVERS, "the token is replaced", accept=lambda number: number >= 3)


async def test_unreachable_endpoint(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    with IdentityProvider({"mm2": SECRET}) as other:
        other._keys = provider._keys
        client = client_of(oauth_client(kafka, other, "mm2", SECRET))
        other.stop()
        expected = r"A.*token endpoint http.*refused.*check A\.sasl\.oauthbearer\.token\.endpoint\.url"
        with pytest.raises(AuthenticationRefused, match=expected):
            await connect(client)
        other.start()
        await recovers(client)


async def test_an_endpoint_that_hangs(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    provider.hang.set()
    client = client_of(oauth_client(kafka, provider, "mm2", SECRET, **{"sasl.login.read.timeout.ms": "1000"}))
    with pytest.raises(AuthenticationRefused, match=r"token endpoint http.*: no answer within 1 s"):
        await connect(client)


async def test_sessions_are_renewed_under_load(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    """The connection is authenticated again with new tokens, and the endpoint may be down between two of them."""
    provider.lifetime = EXPIRES_IN
    async with Cluster(client_of(oauth_client(kafka, provider, "mm2", SECRET))) as cluster:
        node = await cluster.any_node()
        await cluster.versions(node)
        connection = cluster._connections[node, "default"]
        assert connection._live is not None
        first = connection._live.connection._writer.get_extra_info("sockname")
        ends = time.monotonic() + 3 * EXPIRES_IN
        answered = 0

        async def ask() -> None:
            nonlocal answered
            while time.monotonic() < ends:
                await cluster.send(node, MetadataRequest([]))
                answered += 1

        await asyncio.gather(*(ask() for _ in range(5)))
        assert connection._live is not None
        assert connection._live.connection._writer.get_extra_info("sockname") == first, "connection was replaced"
    assert answered > 100
    assert 3 <= len(provider.requests) <= 10


async def test_new_keys_of_the_provider(provider: IdentityProvider, kafka: KafkaCluster) -> None:
    """A broker rejects the first token that has a new key, and reads the keys again."""
    client = client_of(oauth_client(kafka, provider, "mm2", SECRET))
    await connect(client)
    provider.change_keys()
    logins.login_of.cache_clear()
    with pytest.raises(AuthenticationRefused, match="invalid_token"):
        await connect(client)
    await recovers(client)
