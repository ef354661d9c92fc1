"""Private key and certificate chain of a client or listener, from its key store."""

from __future__ import annotations

import textwrap
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mm2.config.grammar.problems import to_copy
from mm2.config.security.security_keys import SecurityKeys
from mm2.config.security.tls.certificates import WrongPasswordError, key_mismatch, outside_validity, to_pem
from mm2.config.security.tls.formats.key_store import (
    Identity,
    KeyStore,
    StoreError,
    WrongKeyPasswordError,
    in_order_of_java,
)
from mm2.config.security.tls.formats.pem import PEM_BLOCK
from mm2.config.security.tls.stores import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class PemIdentity:
    """Certificate chain and private key in PEM, both or neither. ``key_password`` None: the key is not encrypted."""

    certificate_pem: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)


NO_IDENTITY = PemIdentity()


def read_identity(store: Store, keys: SecurityKeys) -> PemIdentity:
    """Return the identity that ssl.keystore.* describes; `NO_IDENTITY` if there is none, or after an error."""
    if keys.keystore_key is not None:
        return _inline(store, keys, keys.keystore_key)
    if keys.keystore_certificate_chain is not None:
        _refuse_without(store, "certificate.chain", "key", "the private key in PEM")
        return NO_IDENTITY
    content = store.read()
    if isinstance(content, KeyStore):
        return _of_key_store(store, content, keys)
    if content is None or not all(store.expect("location", content, kind) for kind in ("CERTIFICATE", "PRIVATE KEY")):
        return NO_IDENTITY
    blocks = list(PEM_BLOCK.finditer(content))
    certificates = "\n".join(match[0] for match in blocks if match["kind"].endswith("CERTIFICATE"))
    key = "\n".join(match[0] for match in blocks if match["kind"].endswith("PRIVATE KEY"))
    return _checked(store, "location", PemIdentity(certificate_pem=certificates, key_pem=key), keys)


def _inline(store: Store, keys: SecurityKeys, private_key: str) -> PemIdentity:
    if not store.check_inline("key"):
        return NO_IDENTITY
    if keys.keystore_certificate_chain is None:
        _refuse_without(store, "key", "certificate.chain", "the certificate chain in PEM")
        return NO_IDENTITY
    if store.has("location"):
        refuse_both(store, "key")
        return NO_IDENTITY
    chain = store.expect("certificate.chain", keys.keystore_certificate_chain, "CERTIFICATE")
    key = store.expect("key", private_key, "PRIVATE KEY")
    if chain is None or key is None:
        return NO_IDENTITY
    return _checked(store, "key", PemIdentity(certificate_pem=chain, key_pem=key), keys)


def _of_key_store(store: Store, content: KeyStore, keys: SecurityKeys) -> PemIdentity:
    """Return the identity of the entry that Java's key manager would try first.

    All keys must have the same password, as in Java.
    """
    entries = in_order_of_java(content.keys)
    if not entries:
        what = ": it contains only trusted certificates" if content.trusted else ""
        store.refuse_content(f"contains no private key{what}", "give the path of a store with a private key")
        return NO_IDENTITY
    identities = []
    for entry in entries:
        try:
            identities.append(entry.decrypt(keys.key_password or store.password or ""))
        except WrongKeyPasswordError:
            _refuse_key_password(store, f'does not decrypt the private key "{entry.alias}" of {store.path}')
            return NO_IDENTITY
        except StoreError as error:
            store.refuse_content(f'private key "{entry.alias}": {error}', "replace the key in the store")
            return NO_IDENTITY
    chosen, identity = entries[0].alias, identities[0]
    if not identity.chain:
        store.refuse_content(f'contains no certificate of the private key "{chosen}"', "import it: keytool -importcert")
        return NO_IDENTITY
    if others := [entry.alias for entry in entries[1:]]:
        store.warn(
            "location",
            f'contains several private keys; "{chosen}" is used, and {", ".join(others)} ignored',
            "use a store with one private key",
        )
    pem = PemIdentity(certificate_pem=to_pem(identity.chain), key_pem=_key_to_pem(identity))
    return _checked(store, "location", pem, keys)


def _checked(store: Store, name: str, identity: PemIdentity, keys: SecurityKeys) -> PemIdentity:
    """Return ``identity``, or add an error about ssl.keystore.``name``, from which it was read."""
    certificate, key = identity.certificate_pem, identity.key_pem
    assert certificate is not None
    assert key is not None
    password = keys.key_password if "ENCRYPTED" in key else None
    if "ENCRYPTED" in key and password is None:
        own = store.full_name("ssl.key.password", beside=name)
        store.refuse(
            name,
            f"contains an encrypted private key, but {own} is not set",
            f"replace PASSWORD with its password, and add:{to_copy(f'{own} = PASSWORD')}",
        )
        return NO_IDENTITY
    try:
        rule = key_mismatch(certificate, key, password)
    except WrongPasswordError:
        _refuse_key_password(store, "does not decrypt the private key")
        return NO_IDENTITY
    if rule is not None:
        fix = "use a private key with its own certificate first, followed by those of its issuers"
        store.refuse_content(rule, fix, name)
        return NO_IDENTITY
    if (rule := outside_validity(certificate, datetime.now(UTC))) is not None:
        # A node tries it: brokers decide by their own clocks, and a certificate can become valid.
        fix = "renew the certificate, and check the clock of this machine"
        store.set_value(name).refuse(store.problems, rule, fix, is_temporary=True)
    return PemIdentity(certificate_pem=certificate, key_pem=key, key_password=password)


def _refuse_key_password(store: Store, rule: str) -> None:
    name = "ssl.key.password"
    if (value := store.properties.get(name)) is not None:
        value.refuse(store.problems, rule, "write the password of the private key")
        return
    key = store.full_name(name, beside="password")
    store.refuse(
        "password",
        f"opens the store, but {rule}",
        f"replace PASSWORD with the password of the private key, and add:{to_copy(f'{key} = PASSWORD')}",
    )


def _key_to_pem(identity: Identity) -> str:
    text = "\n".join(textwrap.wrap(b64encode(identity.key).decode(), 64))
    return f"-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"


def refuse_both(store: Store, inline: str) -> None:
    """Add an error: the store is given as a file and as PEM in ssl.KIND.``inline``."""
    other = store.key(inline, beside="location")
    store.refuse("location", f"must not be set together with {other}", f"remove this line or {other}")


def _refuse_without(store: Store, name: str, missing: str, what: str) -> None:
    key = store.key(missing, beside=name)
    store.refuse(name, f"requires {key}, which is not set", f"add {key} = {what}, or remove the line")
