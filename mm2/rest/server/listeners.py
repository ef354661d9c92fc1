"""Listeners and advertised URL of the REST interface: Java's ``listeners`` and ``rest.advertised.*``.

Grammar of a listener (Connect's RestServer): ``("http" | "https") "://" [host] ":" port``, an IPv6 host in brackets, an
empty host meaning every interface.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mm2.core.lanes.lease import LeaseEndpoint
from mm2.core.settings.listener import ServerTls
from mm2.rest.server.lane_identity import LaneIdentity

JAVA_DEFAULT = "http://:8083"
"""Java's listener if ``listeners`` is not set and the internal REST is enabled."""

EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 names of the wildcard, nothing is bound here

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_LISTENER = re.compile(
    r"(?P<scheme>[^:]*)://(?:\[(?P<ipv6>[0-9a-zA-Z:.%]+)\]|(?P<host>[0-9a-zA-Z\-._]*)):(?P<port>\d+)/?"
)


class ListenerError(Exception):
    """A listener is invalid or cannot be opened; the message contains the listener, the cause and the key to check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address to listen on. ``host`` "" stands for all interfaces, ``port`` 0 for any free port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return url(self.scheme, self.host, self.port)

    @classmethod
    def parse(cls, text: str) -> Listener:
        """Parse ``http://host:8083``. Raises ListenerError, whose message contains the fix."""
        match = _LISTENER.fullmatch(text.strip())
        if match is None:
            raise ListenerError(f"{text!r} is not a listener: write protocol://host:port, for example {JAVA_DEFAULT}")
        scheme, port = match["scheme"].lower(), int(match["port"])
        if scheme not in ("http", "https"):
            raise ListenerError(f"{text!r}: the protocol of a listener must be http or https")
        if port > 65_535:
            raise ListenerError(f"{text!r}: the port must be at most 65535")
        return cls(scheme=scheme, host=match["ipv6"] or match["host"] or "", port=port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """``rest.advertised.host.name``, ``.port`` and ``.listener`` (the scheme); None if not set."""

    host: str | None = None
    port: int | None = None
    scheme: str | None = None


def advertised_url(listeners: Sequence[Listener], advertised: Advertised, *, own_host: str) -> str:
    """Return the URL for other nodes. ``listeners`` have the ports actually bound; ``own_host`` is the host name for a
    listener on all interfaces. As in Java: the configured scheme, otherwise http before https; a configured host and
    port take precedence over those of the listener.
    """
    scheme = advertised.scheme or ("http" if any(listener.scheme == "http" for listener in listeners) else "https")
    listener = next((listener for listener in listeners if listener.scheme == scheme), listeners[0])
    host = advertised.host or (own_host if listener.host in EVERY_INTERFACE else listener.host)
    return url(scheme, host, advertised.port or listener.port)


def lease_place(
    listeners: Sequence[Listener],
    advertised: Advertised,
    tls: ServerTls | None,
    lanes: LaneIdentity | None,
    *,
    own_host: str,
) -> LeaseEndpoint:
    """Return where lanes on other machines request their leases: the advertised URL, but https before http, since the
    response contains secrets. They trust the node's own certificate and the CAs that the node trusts; ``lanes`` is
    their client certificate if the listener requires one."""
    https = any(listener.scheme == "https" for listener in listeners)
    wanted = replace(advertised, scheme=advertised.scheme or ("https" if https else "http"))
    place = advertised_url(listeners, wanted, own_host=own_host)
    if tls is None or not place.startswith("https:"):
        return LeaseEndpoint(url=place)
    trusted = "\n".join(filter(None, (tls.tls.certificate_pem, tls.tls.ca_pem)))
    return LeaseEndpoint(
        url=place,
        ca_pem=trusted,
        check_hostname=tls.tls.check_hostname,
        certificate_pem=None if lanes is None else lanes.certificate_pem,
        key_pem=None if lanes is None else lanes.key_pem,
    )


def url(scheme: str, host: str, port: int) -> str:
    """Return ``scheme://host:port``, with brackets around an IPv6 host."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
