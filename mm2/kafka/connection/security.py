"""SSL contexts from settings that follow Java's ssl.* keys."""

from __future__ import annotations

import re
import ssl
from functools import lru_cache

from mm2.core.settings.cipher_suites import choose
from mm2.core.settings.tls import TlsSettings
from mm2.kafka.connection.identity import load_identity
from mm2.kafka.errors import SecuritySettingsInvalid

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)


def ssl_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return a client context that verifies the broker's certificate chain, and its host name if ``check_hostname``.

    Every certificate in ``ca_pem`` is a trust anchor, including intermediate and leaf certificates, as in a Java trust
    store. Raises SecuritySettingsInvalid with the name of Java's key.
    """
    if tls.unusable is not None:
        raise SecuritySettingsInvalid(tls.unusable)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_hostname
    _protocols(context, tls.protocols)
    _trust(context, tls.ca_pem)
    _identity(context, tls)
    _ciphers(context, tls.ciphers)
    return context


def shared_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return the context of `ssl_context`, the same for all clients with these settings; it must not be modified.

    The certificates of a whole trust store take up to 100 ms. The system's own is read again for each client, because
    it can change while the settings do not.
    """
    return ssl_context(tls) if tls.ca_pem is None else _remembered(tls)


def _protocols(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise SecuritySettingsInvalid(
            f"ssl.enabled.protocols: {', '.join(unknown) or 'empty'}: must be one or more of {', '.join(_VERSIONS)}"
        )
    versions = [_VERSIONS[name] for name in names]
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


def _trust(context: ssl.SSLContext, ca_pem: str | None) -> None:
    if ca_pem is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    blocks = [block.group(0) for block in _PEM_BLOCK.finditer(ca_pem) if "CERTIFICATE" in block.group(1)]
    if not blocks:
        raise SecuritySettingsInvalid("ssl.truststore: contains no certificate (expected -----BEGIN CERTIFICATE-----)")
    try:
        context.load_verify_locations(cadata="\n".join(blocks))
    except (ssl.SSLError, ValueError) as error:
        raise SecuritySettingsInvalid(f"ssl.truststore: a certificate cannot be read: {error}") from error
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


def _identity(context: ssl.SSLContext, tls: TlsSettings) -> None:
    if tls.certificate_pem is None and tls.key_pem is None:
        return
    if tls.certificate_pem is None or tls.key_pem is None:
        missing = "ssl.keystore.key" if tls.key_pem is None else "ssl.keystore.certificate.chain"
        raise SecuritySettingsInvalid(f"{missing}: missing: certificate chain and key must be set together")
    try:
        load_identity(context, tls.certificate_pem, tls.key_pem, tls.key_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise SecuritySettingsInvalid(_identity_problem(error, tls)) from error


def _identity_problem(error: Exception, tls: TlsSettings) -> str:
    reason = str(getattr(error, "reason", "") or error)
    if "MISMATCH" in reason.upper():
        return "ssl.keystore.key: does not belong to the first certificate of ssl.keystore.certificate.chain"
    if "ENCRYPTED" in (tls.key_pem or ""):
        return f"ssl.keystore.key: cannot be decrypted: check ssl.key.password ({reason})"
    return f"ssl.keystore: certificate or key cannot be read as PEM: {reason}"


def _ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    if not suites:
        return
    try:
        choice = choose(suites)
    except ValueError as error:
        raise SecuritySettingsInvalid(str(error)) from error
    if not choice.modern:
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2)
    if not choice.older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(choice.older))
    except ssl.SSLError as error:
        raise SecuritySettingsInvalid(
            f"ssl.cipher.suites: none of {', '.join(suites)} is supported on this host"
        ) from error


_remembered = lru_cache(maxsize=32)(ssl_context)
