"""What the REST listeners of a node are told: made by `mm2/config` from the file, used by `mm2/rest`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.answer_headers import HeaderRule
from mm2.core.client_settings import TlsSettings


class ClientAuth(StrEnum):
    """ssl.client.auth: whether an https listener asks callers for a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTls:
    """What an https listener shows and asks for. In ``tls`` the certificate and key are the server's own, the CA is the
    one callers' certificates are checked against."""

    tls: TlsSettings
    client_auth: ClientAuth = ClientAuth.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossOrigin:
    """Which pages of other origins a browser lets read answers (access.control.allow.*). Never with credentials."""

    allows: Callable[[str], bool]
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """``tls`` None: no https listener. ``peers``: what this node's calls to other nodes over https trust and show, by
    the same keys as in Java; None: what the system trusts. ``cross_origin`` None: browsers keep answers to pages of our
    own."""

    tls: ServerTls | None = None
    peers: TlsSettings | None = None
    headers: tuple[HeaderRule, ...] = ()
    cross_origin: CrossOrigin | None = field(default=None)
