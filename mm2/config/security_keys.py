"""The security properties every Java client has (security.protocol, ssl.*, sasl.*), and what becomes of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from mm2.config.java_types import ListOf, OptionalString, String, one_of
from mm2.config.keys import KeyModel, key, names
from mm2.config.reach import Reach
from mm2.core.client_settings import SecurityProtocol

LATER = "comes with a later release"


class SecurityKeys(KeyModel):
    """What our clients read. Stores must be PEM; JKS and PKCS12 come later."""

    security_protocol: Annotated[String, one_of(*SecurityProtocol, ignore_case=True)] = key(
        "security.protocol", "PLAINTEXT", "How brokers are spoken to.", reach=Reach.FLOW, local=True
    )
    sasl_mechanism: String = key(
        "sasl.mechanism",
        "GSSAPI",
        "How to log in: `PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`. GSSAPI and OAUTHBEARER come later.",
        reach=Reach.FLOW,
        local=True,
    )
    sasl_jaas_config: OptionalString = key(
        "sasl.jaas.config",
        None,
        "Login module with `username` and `password`; ends with a semicolon (secret).",
        reach=Reach.FLOW,
        local=True,
    )
    truststore_type: String = key(
        "ssl.truststore.type", "JKS", "`PEM`; JKS and PKCS12 come later.", reach=Reach.FLOW, local=True
    )
    truststore_location: OptionalString = key(
        "ssl.truststore.location", None, "File with the certificates to trust.", reach=Reach.FLOW, local=True
    )
    truststore_certificates: OptionalString = key(
        "ssl.truststore.certificates",
        None,
        "The certificates themselves. Without either: those the system trusts (secret).",
        reach=Reach.FLOW,
        local=True,
    )
    truststore_password: OptionalString = key(
        "ssl.truststore.password", None, "PEM has none (secret).", reach=Reach.FLOW, local=True
    )
    keystore_type: String = key(
        "ssl.keystore.type", "JKS", "`PEM`; JKS and PKCS12 come later.", reach=Reach.FLOW, local=True
    )
    keystore_location: OptionalString = key(
        "ssl.keystore.location",
        None,
        "File with our private key and certificate chain, for mutual TLS.",
        reach=Reach.FLOW,
        local=True,
    )
    keystore_key: OptionalString = key(
        "ssl.keystore.key", None, "The private key itself (secret).", reach=Reach.FLOW, local=True
    )
    keystore_certificate_chain: OptionalString = key(
        "ssl.keystore.certificate.chain", None, "The certificate chain itself (secret).", reach=Reach.FLOW, local=True
    )
    keystore_password: OptionalString = key(
        "ssl.keystore.password", None, "PEM has none (secret).", reach=Reach.FLOW, local=True
    )
    key_password: OptionalString = key(
        "ssl.key.password", None, "Password of the private key (secret).", reach=Reach.FLOW, local=True
    )
    endpoint_identification_algorithm: Annotated[String, one_of("https", "", ignore_case=True)] = key(
        "ssl.endpoint.identification.algorithm",
        "https",
        "`https`: the broker's certificate must be for its host name; empty: it need not.",
        reach=Reach.FLOW,
        local=True,
    )
    enabled_protocols: ListOf = key(
        "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "Versions of TLS to speak.", reach=Reach.FLOW, local=True
    )
    ssl_protocol: Annotated[String, one_of("TLS", "TLSv1.2", "TLSv1.3")] = key(
        "ssl.protocol", "TLSv1.3", "Java's context; ssl.enabled.protocols decides.", reach=Reach.NOTHING, local=True
    )
    cipher_suites: ListOf = key(
        "ssl.cipher.suites",
        (),
        "Suites to offer, by Java's names; empty: the usual ones.",
        reach=Reach.FLOW,
        local=True,
    )


REFUSED_TLS: Mapping[str, tuple[str, ...]] = {
    "ssl.engine.factory.class": (),
    "ssl.keymanager.algorithm": ("SunX509", "PKIX", "NewSunX509"),
    "ssl.provider": (),
    "ssl.secure.random.implementation": (),
    "ssl.trustmanager.algorithm": ("PKIX", "SunX509"),
}
"""Properties of Java's TLS that nothing here corresponds to, with the values that ask for nothing special."""

REFUSED_SASL = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class")
"""Java classes that take part in logging in."""

REFUSED_ALWAYS = ("security.providers",)
"""Java classes that change cryptography itself; not among the names a cluster hands down to its clients."""

OTHER_MECHANISMS = (
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
)
"""Read by GSSAPI and OAUTHBEARER only, which are refused as mechanisms; beside PLAIN and SCRAM they mean nothing."""

NAMES = names(SecurityKeys) | set(REFUSED_TLS) | set(REFUSED_SASL) | set(OTHER_MECHANISMS)
"""What a cluster hands down to its clients, bootstrap.servers aside."""
