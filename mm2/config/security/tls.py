"""ssl.* of one Java client to TlsSettings. PEM files are read here, so that lanes receive their content."""

from __future__ import annotations

from mm2.config.grammar.problems import ProblemLog, to_copy
from mm2.config.grammar.values import Properties
from mm2.config.security.security_keys import REFUSED_TLS, SecurityKeys
from mm2.config.security.stores import PEM_BLOCK, Store
from mm2.core.settings.cipher_suites import TLS13_SUITES
from mm2.core.settings.client import TlsSettings

_VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")


def read_tls(properties: Properties, keys: SecurityKeys, problems: ProblemLog) -> TlsSettings:
    """Return the settings of the client's TLS connections.

    Settings that cannot be applied are errors: no connection is less secure than requested.
    """
    for name, harmless in REFUSED_TLS.items():
        if (value := properties.get(name)) is not None and value.text.strip() not in ("", *harmless):
            value.refuse(problems, "not supported: it configures Java's own TLS implementation", "remove the line")
    _check_protocols(properties, keys, problems)
    _check_suites(properties, keys, problems)
    certificate, private_key = _identity(Store(properties, "keystore", keys.keystore_type, problems), keys)
    return TlsSettings(
        ca_pem=_trusted(Store(properties, "truststore", keys.truststore_type, problems), keys),
        certificate_pem=certificate,
        key_pem=private_key,
        key_password=keys.key_password,
        check_hostname=keys.endpoint_identification_algorithm == "https",
        ciphers=keys.cipher_suites,
        protocols=keys.enabled_protocols or TlsSettings().protocols,
    )


def _trusted(store: Store, keys: SecurityKeys) -> str | None:
    if keys.truststore_certificates is not None:
        if not store.check_inline("certificates"):
            return None
        if store.has("location"):
            _refuse_both(store, "certificates")
            return None
        return store.expect("certificates", keys.truststore_certificates, "CERTIFICATE")
    content = store.read()
    return None if content is None else store.expect("location", content, "CERTIFICATE")


def _identity(store: Store, keys: SecurityKeys) -> tuple[str | None, str | None]:
    """Return certificate chain and private key, both or neither."""
    if keys.keystore_key is not None:
        return _inline_identity(store, keys, keys.keystore_key)
    if keys.keystore_certificate_chain is not None:
        _refuse_without(store, "certificate.chain", "key", "the private key in PEM")
        return None, None
    content = store.read()
    if content is None or not all(store.expect("location", content, kind) for kind in ("CERTIFICATE", "PRIVATE KEY")):
        return None, None
    _check_password(store, "location", content, keys)
    blocks = list(PEM_BLOCK.finditer(content))
    return (
        "\n".join(match[0] for match in blocks if match["kind"].endswith("CERTIFICATE")),
        "\n".join(match[0] for match in blocks if match["kind"].endswith("PRIVATE KEY")),
    )


def _inline_identity(store: Store, keys: SecurityKeys, private_key: str) -> tuple[str | None, str | None]:
    if not store.check_inline("key"):
        return None, None
    if keys.keystore_certificate_chain is None:
        _refuse_without(store, "key", "certificate.chain", "the certificate chain in PEM")
        return None, None
    if store.has("location"):
        _refuse_both(store, "key")
        return None, None
    _check_password(store, "key", private_key, keys)
    return (
        store.expect("certificate.chain", keys.keystore_certificate_chain, "CERTIFICATE"),
        store.expect("key", private_key, "PRIVATE KEY"),
    )


def _refuse_both(store: Store, inline: str) -> None:
    other = store.key(inline, beside="location")
    store.refuse("location", f"must not be set together with {other}", f"remove this line or {other}")


def _refuse_without(store: Store, name: str, missing: str, what: str) -> None:
    key = store.key(missing, beside=name)
    store.refuse(name, f"requires {key}, which is not set", f"add {key} = {what}, or remove the line")


def _check_password(store: Store, name: str, private_key: str, keys: SecurityKeys) -> None:
    if "ENCRYPTED" in private_key and keys.key_password is None:
        key = store.full_name("ssl.key.password", beside=name)
        store.refuse(
            name,
            f"contains an encrypted private key, but {key} is not set",
            f"replace PASSWORD with its password, and add:{to_copy(f'{key} = PASSWORD')}",
        )


def _check_protocols(properties: Properties, keys: SecurityKeys, problems: ProblemLog) -> None:
    unknown = [version for version in keys.enabled_protocols if version not in _VERSIONS]
    if unknown:
        properties["ssl.enabled.protocols"].refuse(
            problems,
            f"must be a list of {', '.join(_VERSIONS)}",
            f"remove {', '.join(unknown)} from the list",
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
