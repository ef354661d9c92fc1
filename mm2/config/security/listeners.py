"""Settings of the REST listeners: TLS, response headers and CORS.

TLS is read from ``ssl.*``, or, if there is any key with the prefix ``listeners.https.``, only from those, as in Java.
The same keys apply to REST calls to other nodes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from mm2.config.grammar.problems import ProblemLog, to_copy
from mm2.config.grammar.values import Properties
from mm2.config.keys import declaration
from mm2.config.keys.node_keys import CLIENT_AUTH, HTTPS, ClientAuthKeys, RestSettings
from mm2.config.regex.java_regex import JavaPattern, SlowMatchError, compile_java
from mm2.config.security.security_keys import SecurityKeys
from mm2.config.security.tls.settings import has_trust_store, read_tls
from mm2.core.settings.listener import ClientAuth, CrossOrigin, ListenerSettings, ServerTls
from mm2.core.settings.response_headers import read_header_rules
from mm2.core.settings.tls import TlsSettings

log = logging.getLogger("mm2.rest")

LONGEST_ORIGIN = 300
"""Characters of scheme, host name and port. A limit, because patterns can take long on long input."""

MATCHED_WITHIN_S = 0.001
"""Limit of one match, in seconds: as much as a request costs anyway, since anyone can send a new origin with each."""

JAVA_METHODS = ("GET", "POST", "HEAD")
"""Default of access.control.allow.methods."""


@dataclass(frozen=True, slots=True)
class OriginPatterns:
    """access.control.allow.origin: ``*``, or Java regular expressions that match whole origins, ignoring case."""

    patterns: tuple[JavaPattern, ...]
    allow_all: bool
    _slow: set[str] = field(default_factory=set, compare=False)  # at most one: it is logged once

    @classmethod
    def of(cls, elements: tuple[str, ...]) -> OriginPatterns:
        """Compile ``elements``, which have been validated."""
        written = (f"(?i){element}" for element in elements if element not in ("", "*"))
        patterns = tuple(compile_java(element, MATCHED_WITHIN_S) for element in written)
        return cls(patterns, "*" in elements)

    def __call__(self, origin: str) -> bool:
        if self.allow_all or len(origin) > LONGEST_ORIGIN:
            return self.allow_all
        try:
            return any(pattern.matches(origin) for pattern in self.patterns)
        except SlowMatchError:
            if not self._slow:
                self._slow.add(origin)
                log.warning(
                    "origin %s is not allowed: a regular expression of access.control.allow.origin takes more than"
                    " %g ms for it, and others are not logged; write it without nested repetitions such as (a+)+",
                    origin,
                    MATCHED_WITHIN_S * 1000,
                )
            return False


def read_listening(rest: RestSettings, properties: Properties, problems: ProblemLog) -> ListenerSettings:
    """Return the settings of the node's listeners; errors are added to ``problems``."""
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
        cross_origin=CrossOrigin(allows=origins, methods=methods) if origins.allow_all or origins.patterns else None,
    )


def read_peer_tls(properties: Properties, problems: ProblemLog) -> TlsSettings:
    """Return the TLS of calls to other nodes if a proxy provides https, so that no certificate is required here."""
    _, own = _own_keys(properties)
    return read_tls(own, declaration.read(SecurityKeys, own, problems), problems)


def key_prefix(properties: Properties) -> str:
    """Return the prefix of the keys that listeners read."""
    return HTTPS if any(name.startswith(HTTPS) for name in properties) else ""


def _own_keys(properties: Properties) -> tuple[str, Properties]:
    prefix = key_prefix(properties)
    return prefix, {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}


def read_server_tls(properties: Properties, problems: ProblemLog) -> ServerTls:
    """Return the TLS of https listeners. ``properties``: those of the whole file."""
    prefix, own = _own_keys(properties)
    read = declaration.read(SecurityKeys, own, problems)
    tls = read_tls(own, read, problems)
    auth_keys = declaration.read(ClientAuthKeys, own, problems)
    if not any(name in own for name in ("ssl.keystore.location", "ssl.keystore.key")):
        properties["listeners"].refuse(
            problems,
            f"requires a certificate for https, but {prefix}ssl.keystore.location is not set",
            "replace FILE with a PEM file that contains the private key and the certificate chain, and add:"
            + to_copy(f"{prefix}ssl.keystore.type = PEM", f"{prefix}ssl.keystore.location = FILE"),
        )
    client_auth = ClientAuth(auth_keys.ssl_client_auth)
    if client_auth is not ClientAuth.NONE and not has_trust_store(own):
        own[CLIENT_AUTH].warn(
            problems,
            "accepts client certificates signed by any CA of Java's default trust store, as in Java",
            "replace FILE with a PEM file that contains the certificates of your CAs, and add:"
            + to_copy(f"{prefix}ssl.truststore.type = PEM", f"{prefix}ssl.truststore.location = FILE"),
        )
    return ServerTls(tls=tls, client_auth=client_auth)
