"""docs/how-to/security.md: each recipe is read as it stands, but for names, paths and passwords, and connects."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka.protocol.metadata import MetadataRequest
from cryptography.hazmat.primitives.asymmetric import rsa

from mm2.config.clients.flow_clients import ClientRole
from mm2.config.load import load
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from mm2.kafka.client.cluster import Cluster
from tests.lab import class_data, jars, jvm, scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.fixtures import unique_name
from tests.lab.identity_provider import AUDIENCE, IdentityProvider, pem_of
from tests.lab.jars import KAFKA_4
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.kdc import REALM, Kdc
from tests.lab.key_stores import STORE_PASSWORD, write_key_store, write_trust_store
from tests.lab.listeners import Listener
from tests.lab.oauth import allowed
from tests.lab.records import plain, write
from tests.lab.settings import ONE_COPY
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import GaveUp

GUIDE = ROOT / "docs/how-to/security.md"
RECIPES = dict(re.findall(r'```properties title="(.*?)"\n(.*?)```', GUIDE.read_text("utf-8"), re.DOTALL))
OF_NODES = {"REST over mutual TLS", "ZooKeeper over mutual TLS"}  # tests/integration/{test_rest_https,election}
KERBEROS = [title for title in RECIPES if title.startswith("Kerberos")]
OAUTH = [title for title in RECIPES if title.startswith("OAuth")]
PASSWORDS = [title for title in RECIPES if title not in {*OF_NODES, *KERBEROS, *OAUTH}]
USER, USER_PASSWORD, CLIENT_SECRET, KEY_PASSWORD = "mirror", "user = sesame; 2", "client sesame", "key sesame"
RECORDS = 20
COPIED_BY_JAVA = 120.0  # seconds: its flows start one after the other
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"


@dataclass(frozen=True, slots=True)
class Place:
    """A broker, and what stands in the recipes for what it has."""

    kafka: KafkaCluster
    texts: Mapping[str, str]

    def recipe(self, title: str) -> str:
        """Return a recipe of the guide with what stands for its names, paths and passwords."""
        recipe: str = RECIPES[title]
        for text, own in self.texts.items():
            recipe = recipe.replace(text, own)
        return recipe

    async def connect(self, title: str) -> None:
        """Connect with the client of cluster A that the recipe gives."""
        recipe = self.recipe(title)
        rest = "clusters = A, B\nB.bootstrap.servers = 127.0.0.1:1\nA->B.enabled = true\n"
        path = scratch.directory("guide") / "mm2.properties"
        path.write_text(recipe + rest)
        loaded = load(path)
        assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
        assert not loaded.problems, "\n".join(map(str, loaded.problems))
        (flow,) = (flow for flow in loaded.settings.flows if str(flow.flow) == "A->B")
        async with Cluster(flow.clients.of(ClientRole.REPLICATION_CONSUMER, 0)) as cluster:
            await cluster.send(await cluster.any_node(), MetadataRequest([]))


def stores_of(kafka: KafkaCluster) -> dict[str, str]:
    """Write stores with the certificates of a cluster, and return their paths by those of the guide."""
    directory, pems = scratch.directory("stores"), kafka.authority.client("mirror")
    written = {
        "truststore.jks": write_trust_store(directory / "truststore.jks", kafka.authority.ca_pem, "JKS"),
        "truststore.p12": write_trust_store(directory / "truststore.p12", kafka.authority.ca_pem, "PKCS12"),
        "keystore.jks": write_key_store(directory / "keystore.jks", pems, "JKS", key_password=KEY_PASSWORD),
        "keystore.p12": write_key_store(directory / "keystore.p12", pems, "PKCS12"),
        "ca.pem": directory / "ca.pem",
        "client.pem": directory / "client.pem",
    }
    written["ca.pem"].write_text(kafka.authority.ca_pem)
    written["client.pem"].write_text(pems.key + pems.certificate)
    paths = {f"/etc/mm2/{name}": str(path) for name, path in written.items()}
    return {**paths, "store-password": STORE_PASSWORD, "key-password": KEY_PASSWORD}


@pytest.fixture(scope="module")
def passwords() -> Iterator[Place]:
    """A broker with TLS, users and delegation tokens."""
    mechanisms = (SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
    listeners = (
        Listener(protocol=SecurityProtocol.SSL),
        Listener(protocol=SecurityProtocol.SSL, client_certificates=True, name="MUTUAL"),
        Listener(protocol=SecurityProtocol.SASL_SSL, mechanisms=mechanisms),
    )
    properties = {"delegation.token.secret.key": "of the brokers"}
    with KafkaCluster("A", listeners=listeners, users={USER: USER_PASSWORD}, properties=properties) as kafka:
        texts = stores_of(kafka)
        secrets = scratch.directory("secrets") / "secrets.properties"
        secrets.write_text(
            f"trust-store = {STORE_PASSWORD}\n"
            "jaas = org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{USER}" password="{USER_PASSWORD}";\n'
        )
        token_id, token_hmac = delegation_token(kafka, texts["/etc/mm2/truststore.jks"])
        yield Place(
            kafka,
            {
                "kafka-a.example.com:9093": kafka.bootstrap_of("SSL"),
                "kafka-a.example.com:9094": kafka.bootstrap_of("MUTUAL"),
                "kafka-a.example.com:9095": kafka.bootstrap_of("SASL_SSL"),
                "/etc/mm2/secrets.properties": str(secrets),
                **texts,
                "user-password": USER_PASSWORD,
                "token-id": token_id,
                "token-hmac": token_hmac,
            },
        )


def delegation_token(kafka: KafkaCluster, truststore: str) -> tuple[str, str]:
    """Create a token as `USER` with Kafka's tool, and return its ID and HMAC."""
    login = f'required username="{USER}" password="{USER_PASSWORD}";'
    config = scratch.directory("tool") / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule {login}\n"
        f"ssl.truststore.location={truststore}\nssl.truststore.password={STORE_PASSWORD}\n"
    )
    arguments = ("--create", "--max-life-time-period", "-1", "--command-config", str(config))
    done = subprocess.run(
        [
            *(jvm.java(), *jvm.QUICK_START, *jvm.log_options("error"), "-cp", jars.class_path(KAFKA_4), TOOL),
            *("--bootstrap-server", kafka.bootstrap_of("SASL_SSL"), *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    row = done.stdout.strip().splitlines()[-1].split()
    return row[0], row[1]


@pytest.mark.parametrize("title", PASSWORDS)
async def test_certificates_and_passwords(passwords: Place, title: str) -> None:
    await passwords.connect(title)


@pytest.mark.long  # ours connects with the same recipes in the test above
@pytest.mark.timeout(300)
def test_java_connects_with_the_same_recipes(passwords: Place, cluster_b: KafkaCluster) -> None:
    """One Java MirrorMaker 2 with a flow for each recipe, whose cluster A has another alias for each."""
    aliases = {title: unique_name(f"S{number}") for number, title in enumerate(PASSWORDS)}
    topic, target = passwords.kafka.create_topic(unique_name("guide")), unique_name("T")
    write(passwords.kafka.bootstrap, topic, plain(RECORDS))
    recipes = [
        re.sub(r"^A\.", f"{alias}.", passwords.recipe(title), flags=re.MULTILINE) for title, alias in aliases.items()
    ]
    common = {
        "clusters": ", ".join((*aliases.values(), target)),
        f"{target}.bootstrap.servers": cluster_b.bootstrap,
        **{f"{alias}->{target}.enabled": "true" for alias in aliases.values()},
        "topics": topic,
        **dict.fromkeys((f"emit.{what}.enabled" for what in ("heartbeats", "checkpoints")), "false"),
        **dict.fromkeys((f"sync.topic.{what}.enabled" for what in ("acls", "configs")), "false"),
        **ONE_COPY,
    }
    file = "\n".join((*recipes, *(f"{key} = {value}" for key, value in common.items())))
    with JavaMirrorMaker(file, clusters=(target,), heap="1g") as java:
        for title, alias in aliases.items():
            try:
                wait_until_copied(
                    (passwords.kafka.bootstrap, topic), (cluster_b.bootstrap, f"{alias}.{topic}"), COPIED_BY_JAVA
                )
            except GaveUp as error:
                raise GaveUp(f"{title}: {error}\n{java.process.report()}") from None
        java.kill()


@pytest.fixture(scope="module")
def oauth() -> Iterator[Place]:
    """A broker that accepts the tokens of an identity provider."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    directory = scratch.directory("oauth")
    (directory / "key.pem").write_text(pem_of(key))
    listener = Listener(protocol=SecurityProtocol.SASL_SSL, mechanisms=(SaslMechanism.OAUTHBEARER,))
    with IdentityProvider({"mirror": CLIENT_SECRET}, signers={"mirror": key.public_key()}) as provider:
        (directory / "token").write_text(provider.token("mirror"))
        keys = f"{provider.url}/jwks"
        with KafkaCluster(
            "A",
            listeners=(listener,),
            properties={
                "sasl.oauthbearer.jwks.endpoint.url": keys,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
            },
            java_options=(*class_data.options(KAFKA_4), allowed(keys)),
        ) as kafka:
            yield Place(
                kafka,
                {
                    "kafka-a.example.com:9097": kafka.bootstrap_of("SASL_SSL"),
                    "https://id.example.com/token": provider.token_url,
                    "client-secret": CLIENT_SECRET,
                    "/etc/mm2/oauth-key.pem": str(directory / "key.pem"),
                    "/run/mm2/token": str(directory / "token"),
                    **stores_of(kafka),
                },
            )


@pytest.mark.parametrize("title", OAUTH)
async def test_tokens(oauth: Place, title: str) -> None:
    await oauth.connect(title)


@pytest.fixture(scope="module")
def kerberos() -> Iterator[Place]:
    """A broker of a realm with one principal, with keys and with a ticket."""
    protocol = SecurityProtocol.SASL_PLAINTEXT
    with Kdc() as kdc, KafkaCluster("A", **kdc.broker(protocol)) as kafka:
        kdc.add("mirror/mm2.example.com")
        keytab, cache = kdc.keytab("mirror/mm2.example.com"), kdc.directory / "krb5cc"
        kdc.kinit(keytab, "mirror/mm2.example.com", cache, "-r", "1d")
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
            yield Place(
                kafka,
                {
                    "kafka-a.example.com:9096": kafka.bootstrap_of(protocol),
                    "/etc/mm2/mirror.keytab": str(keytab),
                    "/run/mm2/krb5cc": str(cache),
                    "EXAMPLE.COM": REALM,
                },
            )


@pytest.mark.needs("gssapi")
@pytest.mark.needs("krb5kdc")
@pytest.mark.parametrize("title", KERBEROS)
async def test_keytabs_and_tickets(kerberos: Place, title: str) -> None:
    await kerberos.connect(title)


def test_every_recipe_is_run() -> None:
    assert len(PASSWORDS) == 10
    assert len(OAUTH) == 3
    assert len(KERBEROS) == 2
    assert set(RECIPES) >= OF_NODES


def test_named_tests_exist() -> None:
    named = set(re.findall(r"`(tests/\S+\.py)`", GUIDE.read_text("utf-8")))
    assert len(named) > 10
    assert {name for name in named if not Path(ROOT, name).is_file()} == set()
