"""Content of a key store, in whichever format, and why one cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache


class StoreError(Exception):
    """A store cannot be read. The message is the reason; it never contains a password."""


class WrongStorePasswordError(StoreError):
    """The store's password is wrong, or the file was changed by something other than a key store tool."""


class PasswordRequiredError(StoreError):
    """The certificates are encrypted, and no password is given."""


class WrongKeyPasswordError(StoreError):
    """A private key cannot be decrypted with the given password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A private key, PKCS 8, and its certificate chain, its own certificate first, all in DER."""

    key: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """A private-key entry. ``certificate`` is the key's own in DER; None: not known before the key is decrypted.

    ``decrypt`` returns the identity for the key's password; it raises WrongKeyPasswordError or another StoreError. It
    can take a second, so its results are to be kept (`once`).
    """

    alias: str
    certificate: bytes | None
    decrypt: Callable[[str], Identity] = field(repr=False, compare=False)


def once(decrypt: Callable[[str], Identity]) -> Callable[[str], Identity]:
    """Return ``decrypt`` with its last result kept."""
    return lru_cache(maxsize=1)(decrypt)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """``keys``: the private-key entries in the order of the file. ``trusted``: the certificates of the other entries,
    in DER. ``undecided``: the aliases of certificates of which it cannot be seen whether they are trusted; they are
    not."""

    keys: tuple[KeyEntry, ...] = ()
    trusted: tuple[bytes, ...] = ()
    undecided: tuple[str, ...] = ()

    @property
    def anchors(self) -> tuple[bytes, ...]:
        """The certificates that a client with this trust store trusts: those of its trusted entries, and the own
        certificate of each private key, but not the rest of its chain (Java's TrustStoreUtil.getTrustedCerts)."""
        own = (entry.certificate for entry in self.keys)
        return tuple(dict.fromkeys((*self.trusted, *(certificate for certificate in own if certificate is not None))))


def in_order_of_java(entries: Iterable[KeyEntry]) -> tuple[KeyEntry, ...]:
    """Return ``entries`` in the order in which Java's key manager (SunX509) tries them.

    It keeps them in a HashMap by alias, and presents the first whose key type and issuer the peer accepts.
    """
    found = {entry.alias: entry for entry in entries}
    buckets = _FIRST_BUCKETS
    while len(found) > buckets * _LOAD:
        buckets *= 2
    return tuple(sorted(found.values(), key=lambda entry: _bucket(entry.alias, buckets)))


_FIRST_BUCKETS, _LOAD = 16, 0.75  # of java.util.HashMap


def _bucket(alias: str, buckets: int) -> int:
    number = 0
    units = alias.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):  # String.hashCode
        number = (31 * number + int.from_bytes(units[at : at + 2])) & 0xFFFFFFFF
    return (number ^ number >> 16) & (buckets - 1)
