"""The REST listeners of the file: their TLS, the headers of their answers, and which pages may read those.

TLS is read from ``ssl.*``, or from ``listeners.https.ssl.*`` as soon as there is one key with that prefix: all or
nothing, as in Java, which also makes its calls to other nodes by the same keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import regex

from mm2.config import keys
from mm2.config.java_regex import compile_java
from mm2.config.node_keys import CLIENT_AUTH, HTTPS, ClientAuthKeys, RestSettings
from mm2.config.problems import ProblemLog
from mm2.config.security_keys import SecurityKeys
from mm2.config.tls import read_tls
from mm2.config.values import Properties
from mm2.core.answer_headers import read_header_rules
from mm2.core.client_settings import TlsSettings
from mm2.core.listener_settings import ClientAuth, CrossOrigin, ListenerSettings, ServerTls

SPOKEN = frozenset({"TLSv1.2", "TLSv1.3"})
"""Versions of TLS that listeners speak: older ones are broken, and Python's OpenSSL mostly has them switched off."""

LONGEST_ORIGIN = 300
"""Characters of scheme, host name and port; nobody can keep a pattern busy with more."""

JAVA_METHODS = ("GET", "POST", "HEAD")
"""What pages of other origins may do where access.control.allow.methods says nothing."""


@dataclass(frozen=True, slots=True)
class OriginPatterns:
    """access.control.allow.origin: ``*``, or Java's regular expressions for whole origins, in any case."""

    patterns: tuple[regex.Pattern[str], ...]
    everybody: bool

    @classmethod
    def of(cls, elements: tuple[str, ...]) -> OriginPatterns:
        """Elements that have been found good."""
        patterns = tuple(compile_java(f"(?i){element}") for element in elements if element not in ("", "*"))
        return cls(patterns, "*" in elements)

    def __call__(self, origin: str) -> bool:
        if self.everybody or len(origin) > LONGEST_ORIGIN:
            return self.everybody
        return any(pattern.fullmatch(origin) for pattern in self.patterns)


def read_listening(rest: RestSettings, properties: Properties, problems: ProblemLog) -> ListenerSettings:
    """All of it; what is wrong goes to ``problems``."""
    https = any(url.lower().startswith("https:") for url in rest.listeners or ())
    tls = read_server_tls(properties, problems) if https else None
    peers = tls.tls if tls is not None else None
    if tls is None and (rest.advertised_listener or "").lower() == "https":
        peers = read_peer_tls(properties, problems)
    origins = OriginPatterns.of(rest.access_control_allow_origin)
    methods = tuple(filter(None, rest.access_control_allow_methods)) or JAVA_METHODS
    return ListenerSettings(
        tls=tls,
        peers=peers,
        headers=read_header_rules(rest.response_http_headers_config),
        cross_origin=CrossOrigin(allows=origins, methods=methods) if origins.everybody or origins.patterns else None,
    )


def read_peer_tls(properties: Properties, problems: ProblemLog) -> TlsSettings:
    """The TLS of calls to nodes of a file whose https a proxy speaks: there need be no certificate."""
    prefix, own = _own_keys(properties)
    return read_tls(own, keys.read(SecurityKeys, own, problems), problems, prefix=prefix)


def _own_keys(properties: Properties) -> tuple[str, Properties]:
    prefix = HTTPS if any(name.startswith(HTTPS) for name in properties) else ""
    return prefix, {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}


def read_server_tls(properties: Properties, problems: ProblemLog) -> ServerTls:
    """The TLS of https listeners, from all properties of a file that has one."""
    prefix, own = _own_keys(properties)
    read = keys.read(SecurityKeys, own, problems)
    tls = read_tls(own, read, problems, prefix=prefix)
    asked = keys.read(ClientAuthKeys, own, problems)
    if not any(name in own for name in ("ssl.keystore.location", "ssl.keystore.key")):
        properties["listeners"].refuse(
            problems,
            f"needs a certificate for https: add {prefix}ssl.keystore.type = PEM, and {prefix}ssl.keystore.location = "
            "a file with private key and certificate chain.",
        )
    if read.enabled_protocols and not SPOKEN.intersection(read.enabled_protocols):
        own["ssl.enabled.protocols"].refuse(problems, f"must have one of {', '.join(sorted(SPOKEN))} for listeners.")
    client_auth = ClientAuth(asked.ssl_client_auth)
    if client_auth is not ClientAuth.NONE and tls.ca_pem is None:
        own[CLIENT_AUTH].warn(
            problems,
            "lets in whoever has a certificate of any authority that this system trusts, as in Java. Add "
            f"{prefix}ssl.truststore.type = PEM, and {prefix}ssl.truststore.location = a file with your own.",
        )
    return ServerTls(tls=tls, client_auth=client_auth)
