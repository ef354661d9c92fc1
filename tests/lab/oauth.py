"""Clusters whose brokers validate the tokens of a test's identity provider, and the properties of their clients."""

from __future__ import annotations

from collections.abc import Mapping

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.lab import class_data
from tests.lab.cluster import KafkaCluster
from tests.lab.identity_provider import AUDIENCE, IdentityProvider
from tests.lab.jars import KAFKA_4
from tests.lab.listeners import LOGIN_MODULES, Listener

LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.OAUTHBEARER,))
UNSIGNED = Listener(
    protocol=SecurityProtocol.SASL_PLAINTEXT,
    mechanisms=(SaslMechanism.OAUTHBEARER,),
    name="UNSIGNED",
    unsigned_tokens=True,
)
FAILING = Listener(
    protocol=SecurityProtocol.SASL_PLAINTEXT,
    mechanisms=(SaslMechanism.OAUTHBEARER,),
    name="FAILING",
    unsigned_tokens=True,
)
"""Its validator is one of passwords, which cannot validate a token: the broker rejects every token without a
challenge."""

_WRONG_VALIDATOR = "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
MODULE = LOGIN_MODULES[SaslMechanism.OAUTHBEARER]


def allowed(*urls: str) -> str:
    """Return the option of a JVM, broker or client, that may use ``urls``."""
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"


def oauth_cluster(name: str, provider: IdentityProvider, **properties: str) -> KafkaCluster:
    """Return a cluster, not started, that accepts the tokens of ``provider``. Sessions end with their tokens."""
    keys = f"{provider.url}/jwks"
    return KafkaCluster(
        name,
        listeners=(LISTENER, UNSIGNED, FAILING),
        properties={
            "listener.name.failing.oauthbearer.sasl.server.callback.handler.class": _WRONG_VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": keys,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.clock.skew.seconds": "0",
            "connections.max.reauth.ms": "3600000",
            **properties,
        },
        java_options=(*class_data.options(KAFKA_4), allowed(keys)),
    )


def oauth_client(
    cluster: KafkaCluster, provider: IdentityProvider, user: str, secret: str, **more: str
) -> dict[str, str]:
    """Return the properties of a client with a secret, without the prefix of an alias."""
    return {
        "bootstrap.servers": cluster.bootstrap_of(LISTENER.label),
        **oauth_login(),
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.client.credentials.client.id": user,
        "sasl.oauthbearer.client.credentials.client.secret": secret,
        **more,
    }


def oauth_login(options: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return mechanism, login module with ``options``, and handler."""
    text = "".join(f' {name}="{value}"' for name, value in (options or {}).items())
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE} required{text};",
        "sasl.login.callback.handler.class": HANDLER,
    }
