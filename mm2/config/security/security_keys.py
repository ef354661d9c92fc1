"""Security properties of every Java client (security.protocol, ssl.*, sasl.*): supported, rejected, ignored."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from mm2.config.grammar.java_types import ListOf, OptionalString, String, one_of
from mm2.config.keys.class_keys import LOGIN_HANDLER
from mm2.config.keys.declaration import KeyModel, flow_key, idle_key, names
from mm2.config.security.kerberos.keys import KerberosKeys
from mm2.config.security.oauth.keys import BROKER_KEYS, OAUTH, OAuthKeys
from mm2.core.settings.client import SecurityProtocol

_key = partial(flow_key, local=True)

_PROTOCOL_FIX = "write SSL for encryption, SASL_SSL for encryption and a login, or remove the line to use neither"

_TYPE = "`JKS`, `PKCS12`, `JCEKS` or `PEM`. JKS and PKCS12 stores are read with either type, as in Java."


class SecurityKeys(KeyModel):
    """The properties that clients support."""

    security_protocol: Annotated[String, one_of(*SecurityProtocol, ignore_case=True, fix=_PROTOCOL_FIX)] = _key(
        "security.protocol", "PLAINTEXT", "Protocol used to connect to brokers."
    )
    sasl_mechanism: String = _key(
        "sasl.mechanism",
        "GSSAPI",
        "SASL mechanism: `GSSAPI` (Kerberos), `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`.",
    )
    sasl_jaas_config: OptionalString = _key(
        "sasl.jaas.config",
        None,
        "Login module of the mechanism with its options, such as `username` and `password`, followed by a semicolon "
        "(secret). Default: section `KafkaClient` of the JAAS file that `-Djava.security.auth.login.config` in the "
        "environment variable `KAFKA_OPTS` names.",
    )
    truststore_type: String = _key("ssl.truststore.type", "JKS", _TYPE)
    truststore_location: OptionalString = _key(
        "ssl.truststore.location", None, "Trust store file. Default: Java's default trust store, else the system's."
    )
    truststore_certificates: OptionalString = _key(
        "ssl.truststore.certificates",
        None,
        "Trusted certificates in PEM, instead of a file (secret).",
    )
    truststore_password: OptionalString = _key(
        "ssl.truststore.password",
        None,
        "Password of the trust store (secret). Without it a JKS store is read unverified. Not for PEM.",
    )
    keystore_type: String = _key("ssl.keystore.type", "JKS", _TYPE)
    keystore_location: OptionalString = _key(
        "ssl.keystore.location", None, "Key store file with private key and certificate chain, for mutual TLS."
    )
    keystore_key: OptionalString = _key("ssl.keystore.key", None, "Private key in PEM (secret).")
    keystore_certificate_chain: OptionalString = _key(
        "ssl.keystore.certificate.chain", None, "Certificate chain in PEM (secret)."
    )
    keystore_password: OptionalString = _key(
        "ssl.keystore.password", None, "Password of the key store (secret). Required, except for PEM."
    )
    key_password: OptionalString = _key(
        "ssl.key.password", None, "Password of the private key (secret). Default: that of the key store."
    )
    endpoint_identification_algorithm: Annotated[String, one_of("https", "", ignore_case=True)] = _key(
        "ssl.endpoint.identification.algorithm",
        "https",
        "`https`: the server's certificate must match its host name; empty: host names are not verified.",
    )
    enabled_protocols: ListOf = _key("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "Enabled TLS versions.")
    ssl_protocol: Annotated[String, one_of("TLS", "TLSv1.2", "TLSv1.3", "TLSv1.1", "TLSv1", "SSL", "SSLv3")] = idle_key(
        "ssl.protocol", "TLSv1.3", "TLS context of Java. No effect: ssl.enabled.protocols decides.", local=True
    )
    cipher_suites: ListOf = _key(
        "ssl.cipher.suites", (), "Enabled cipher suites, by Java's names; empty: the defaults of OpenSSL."
    )


REFUSED_TLS: Mapping[str, tuple[str, ...]] = {
    "ssl.engine.factory.class": ("org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",),
    "ssl.keymanager.algorithm": ("SunX509", "PKIX", "NewSunX509"),
    "ssl.provider": ("SunJSSE",),
    "ssl.trustmanager.algorithm": ("PKIX", "SunPKIX", "X509", "X.509", "SunX509"),
}
"""Properties of Java's TLS implementation, each with the values that change nothing; others are errors."""

RANDOM = "ssl.secure.random.implementation"
"""Java's source of random numbers. No effect: OpenSSL has its own."""

_INTERNALS = f"{OAUTH}.internals"
_AUTHENTICATOR = "org.apache.kafka.common.security.authenticator"
REFUSED_SASL: Mapping[str, tuple[str, ...]] = {
    "sasl.client.callback.handler.class": (
        f"{_INTERNALS}.OAuthBearerSaslClientCallbackHandler",
        f"{_AUTHENTICATOR}.SaslClientCallbackHandler",
        "org.apache.kafka.common.security.kerberos.KerberosClientCallbackHandler",
    ),
    "sasl.login.class": (
        f"{_INTERNALS}.OAuthBearerRefreshingLogin",
        f"{_AUTHENTICATOR}.DefaultLogin",
        "org.apache.kafka.common.security.kerberos.KerberosLogin",
    ),
    LOGIN_HANDLER.name: (f"{_AUTHENTICATOR}.AbstractLogin$DefaultLoginCallbackHandler",),
}
"""Java classes used for authentication, each with Java's own, which change nothing; others are not supported."""

REFUSED_ALWAYS = ("security.providers",)
"""Java classes that provide cryptography. Not among the properties that clients inherit from their cluster."""

OTHER_MECHANISMS = (*BROKER_KEYS,)
"""Used by brokers; ignored, as in Java."""

MODELS: tuple[type[KeyModel], ...] = (SecurityKeys, KerberosKeys, OAuthKeys)
"""The supported properties: those of all clients, and those of single SASL mechanisms."""

NAMES = names(*MODELS) | set(REFUSED_TLS) | {RANDOM} | set(REFUSED_SASL) | set(OTHER_MECHANISMS)
"""The properties that clients inherit from their cluster, apart from bootstrap.servers."""
