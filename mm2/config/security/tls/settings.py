"""ssl.* of one Java client to TlsSettings. Stores are read here, so that lanes receive their content.

The rules are those of Java's DefaultSslEngineFactory.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties
from mm2.config.security.security_keys import REFUSED_TLS, SecurityKeys
from mm2.config.security.tls.certificates import all_expired, to_pem, untrustworthy
from mm2.config.security.tls.default_trust import DefaultTrustError, default_trust
from mm2.config.security.tls.formats.key_store import KeyStore
from mm2.config.security.tls.identity import read_identity, refuse_both
from mm2.config.security.tls.stores import Store, normalized
from mm2.core.settings.cipher_suites import TLS13_SUITES, openssl_name
from mm2.core.settings.tls import TlsSettings

_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")

_SECURE = TlsSettings().protocols

_SIGNALLING = frozenset({"TLS_EMPTY_RENEGOTIATION_INFO_SCSV", "TLS_FALLBACK_SCSV"})
"""Names in Java's lists that are not cipher suites."""


def read_tls(properties: Properties, keys: SecurityKeys, problems: ProblemLog) -> TlsSettings:
    """Return the settings of the client's TLS connections.

    Settings that cannot be applied are errors: no connection is less secure than requested.
    """
    for name, harmless in REFUSED_TLS.items():
        if (value := properties.get(name)) is not None and value.text.strip() not in ("", *harmless):
            value.refuse(problems, "not supported: it configures Java's own TLS implementation", "remove the line")
    _check_protocols(properties, keys, problems)
    _check_suites(properties, keys, problems)
    check_hostname = keys.endpoint_identification_algorithm == "https"
    if not check_hostname:
        properties["ssl.endpoint.identification.algorithm"].warn(
            problems,
            "host names are not verified: any server with a trusted certificate can take the place of the right one",
            "remove the line to use the default (https), if the certificates contain the host names",
        )
    own = Store(properties, "keystore", normalized(keys.keystore_type), keys.keystore_password, problems)
    trusted = Store(properties, "truststore", normalized(keys.truststore_type), keys.truststore_password, problems)
    identity = read_identity(own, keys)
    return TlsSettings(
        ca_pem=_trusted(trusted, keys),
        certificate_pem=identity.certificate_pem,
        key_pem=identity.key_pem,
        key_password=identity.key_password,
        check_hostname=check_hostname,
        ciphers=tuple(suite for suite in keys.cipher_suites if suite not in _SIGNALLING),
        protocols=tuple(one for one in keys.enabled_protocols if one in _SECURE) or TlsSettings().protocols,
        unusable="; ".join((*own.unusable, *trusted.unusable)) or None,
    )


def has_trust_store(properties: Properties) -> bool:
    """Return whether a trust store is set; otherwise Java's default trust store is used."""
    return any(name in properties for name in ("ssl.truststore.location", "ssl.truststore.certificates"))


def _trusted(store: Store, keys: SecurityKeys) -> str | None:
    name, pem = "location", None
    if keys.truststore_certificates is not None:
        if not store.check_inline("certificates"):
            return None
        if store.has("location"):
            refuse_both(store, "certificates")
            return None
        name, pem = "certificates", store.expect("certificates", keys.truststore_certificates, "CERTIFICATE")
    else:
        content = store.read()
        if isinstance(content, str):
            pem = store.expect("location", content, "CERTIFICATE")
        elif content is not None:
            pem = _anchors(store, content)
    if pem:
        _check_trusted(store, name, pem)
        return pem
    if has_trust_store(store.properties):
        return None
    try:
        return default_trust()
    except DefaultTrustError as error:
        store.problems.error(str(error), "correct the options in KAFKA_OPTS", key="KAFKA_OPTS")
        return None


def _anchors(store: Store, content: KeyStore) -> str:
    """Return the certificates that Java trusts in a key store; empty after an error, if there are none."""
    if content.undecided:
        store.warn(
            "location",
            f"its certificates {', '.join(content.undecided)} are not trusted: with the encryption or encoding of this "
            "store it cannot be seen whether Java trusts them",
            "import them into a new store: keytool -importcert -storetype PKCS12",
        )
    pem = to_pem(content.anchors)
    if not pem:
        store.refuse_content("contains no trusted certificate", "import the CA's certificate: keytool -importcert")
    return pem


def _check_trusted(store: Store, name: str, pem: str) -> None:
    if (reason := untrustworthy(pem)) is not None:
        store.refuse_content(f"contains a certificate that cannot be read ({reason})", "replace the certificate", name)
    elif (date := all_expired(pem, datetime.now(UTC))) is not None:
        store.warn(
            name,
            f"all its certificates have expired, the last one on {date}, so no connection is possible",
            "replace the CA's certificate",
        )


def _check_protocols(properties: Properties, keys: SecurityKeys, problems: ProblemLog) -> None:
    unknown = [version for version in keys.enabled_protocols if version not in _VERSIONS]
    if unknown:
        properties["ssl.enabled.protocols"].refuse(
            problems,
            f"must be a list of {', '.join(_VERSIONS)}",
            f"remove {', '.join(unknown)} from the list",
        )
        return
    old = [version for version in keys.enabled_protocols if version not in _SECURE]
    if old and len(old) == len(keys.enabled_protocols):
        properties["ssl.enabled.protocols"].refuse(
            problems,
            f"must contain {' or '.join(_SECURE)}: older versions are insecure, and disabled in Java and OpenSSL",
            f"remove the line to use the default ({', '.join(_SECURE)})",
        )
    elif old:
        properties["ssl.enabled.protocols"].warn(
            problems, f"{', '.join(old)} are not used: they are insecure, and disabled in Java", "remove them"
        )


def _check_suites(properties: Properties, keys: SecurityKeys, problems: ProblemLog) -> None:
    modern = TLS13_SUITES.intersection(keys.cipher_suites)
    if modern and modern != TLS13_SUITES:
        properties["ssl.cipher.suites"].refuse(
            problems,
            "not supported: TLS 1.3 suites can only be enabled together, so "
            f"{', '.join(sorted(TLS13_SUITES - modern))} would be enabled too",
            "list all three TLS 1.3 suites or none of them",
        )
    others = [suite for suite in keys.cipher_suites if suite not in TLS13_SUITES | _SIGNALLING]
    unknown = [suite for suite in others if not _is_supported(suite)]
    if unknown and unknown == others and not modern:
        properties["ssl.cipher.suites"].refuse(
            problems,
            "contains no cipher suite that OpenSSL supports here",
            "write names such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, or remove the line to use OpenSSL's defaults",
        )
    elif unknown:
        properties["ssl.cipher.suites"].warn(
            problems,
            f"OpenSSL does not support {', '.join(unknown)} here, ignored",
            "correct the names, or remove them from the list",
        )


def _is_supported(suite: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(openssl_name(suite))
    except ssl.SSLError:
        return False
    return True
