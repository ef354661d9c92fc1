"""TLS settings of a client."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS settings with PEM contents. ``ca_pem`` None: the system's trust store; ``check_hostname`` is Java's
    ssl.endpoint.identification.algorithm=https. ``unusable``: why no connection can be opened before a store, which
    cannot be read now, is replaced."""

    ca_pem: str | None = field(default=None, repr=False)
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    ciphers: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    unusable: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The private key and its password."""
        return tuple(secret for secret in (self.key_pem, self.key_password) if secret)
