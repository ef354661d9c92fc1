"""TLS contexts of https listeners."""

from __future__ import annotations

import ssl

from mm2.core.masking import hide
from mm2.core.settings.cipher_suites import choose
from mm2.core.settings.listener import ClientAuth, ServerTls
from mm2.kafka.connection.identity import load_identity
from mm2.rest.server.listeners import ListenerError


class RenewableContext(ssl.SSLContext):
    """A TLS context whose new connections use the context of the last `renew`.

    asyncio and httpx keep the context that they were created with, and certificates that are once trusted cannot be
    removed from a context.
    """

    def __new__(cls, current: ssl.SSLContext) -> RenewableContext:
        return super().__new__(cls, current.protocol)

    def __init__(self, current: ssl.SSLContext) -> None:
        self._current = current

    def renew(self, context: ssl.SSLContext) -> None:
        """Use ``context``, which is for the same side, from now on."""
        self._current = context

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Start a connection, as asyncio does it."""
        return self._current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def server_context(server: ServerTls) -> ssl.SSLContext:
    """Return the TLS context of an https listener, from PEM contents. Raises ListenerError if they do not match."""
    tls = server.tls
    if tls.unusable is not None:
        raise ListenerError(f"listeners: {tls.unusable}")
    hide(*tls.secrets)
    if tls.certificate_pem is None or tls.key_pem is None:
        raise ListenerError("listeners: an https listener needs a certificate chain and its private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if "TLSv1.2" in tls.protocols else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if "TLSv1.3" in tls.protocols else ssl.TLSVersion.TLSv1_2
    try:
        _ciphers(context, tls.ciphers)
        _trust(context, server)
        load_identity(context, tls.certificate_pem, tls.key_pem, tls.key_password)
    except ssl.SSLError as error:
        raise ListenerError(
            f"listeners: invalid certificate, key or cipher list of the https listener: {error.reason or error}; check"
            " that the key matches the certificate and that ssl.key.password is correct"
        ) from error
    context.verify_mode = {
        ClientAuth.NONE: ssl.CERT_NONE,
        ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
        ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
    }[server.client_auth]
    return context


def _ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Restrict the cipher suites. Without a suite of TLS 1.3, or of 1.2, that version is disabled, too."""
    if not suites:
        return
    try:
        choice = choose(suites)
    except ValueError as error:
        raise ListenerError(f"listeners: {error}") from error
    if not choice.modern:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if choice.older:
        context.set_ciphers(":".join(choice.older))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def _trust(context: ssl.SSLContext, server: ServerTls) -> None:
    """Load the certificates that client certificates are verified with. As in a Java trust store every certificate is a
    trust anchor, even if it is not a CA's; without a trust store the system's is used, as in Java."""
    if server.tls.ca_pem is not None:
        context.load_verify_locations(cadata=server.tls.ca_pem)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    elif server.client_auth is not ClientAuth.NONE:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    if server.lanes_pem is not None:
        context.load_verify_locations(cadata=server.lanes_pem)
