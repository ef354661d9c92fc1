"""Settings of a node's REST listeners: created by `mm2/config` from the file, used by `mm2/rest`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.settings.response_headers import HeaderRule
from mm2.core.settings.tls import TlsSettings


class ClientAuth(StrEnum):
    """ssl.client.auth: whether an https listener requests or requires client certificates."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    """TLS settings of an https listener. ``tls`` contains the server's certificate and key, and the CA that client
    certificates are verified with. ``lanes_pem``: the certificate of the node's own lanes on other machines, which is
    accepted too."""

    tls: TlsSettings
    client_auth: ClientAuth = ClientAuth.NONE
    lanes_pem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossOrigin:
    """Other origins whose pages can read responses in a browser (access.control.allow.*); never with credentials."""

    allows: Callable[[str], bool]
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """Settings of all listeners of a node.

    ``tls`` None: no https listener. ``peers``: trust store and certificate for https requests to other nodes, from the
    same properties as in Java; None: no call uses https. ``cross_origin`` None: browsers allow only pages of the
    same origin to read responses.
    """

    tls: ServerTls | None = None
    peers: TlsSettings | None = None
    headers: tuple[HeaderRule, ...] = ()
    cross_origin: CrossOrigin | None = field(default=None)

    @property
    def unusable(self) -> bool:
        """Whether the listeners cannot be opened before a store, which cannot be read now, is replaced."""
        own = None if self.tls is None else self.tls.tls
        return any(tls is not None and tls.unusable is not None for tls in (self.peers, own))
