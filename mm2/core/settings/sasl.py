"""SASL settings of a Kafka client: the mechanism and how it logs in, read from sasl.*.

Each login has ``mechanism``, ``user`` (a name for messages, possibly empty) and ``secrets``, which no message or log
line may contain. Secrets are stored as contents, never as file names, because a lane can run on another machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.settings.kerberos import KerberosLogin
from mm2.core.settings.oauth import OAuthLogin


class SaslMechanism(StrEnum):
    """sasl.mechanism."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    GSSAPI = "GSSAPI"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLogin:
    """User and password, for PLAIN and SCRAM. ``token_auth``: they are the id and the HMAC of a delegation token
    (KIP-48; SCRAM only)."""

    mechanism: SaslMechanism
    username: str
    password: str = field(repr=False)
    token_auth: bool = False

    @property
    def user(self) -> str:
        return self.username

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.password,)

    @property
    def files(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableLogin:
    """A login whose file cannot be read now: every authentication fails with ``reason`` until the file is replaced.
    ``key``: the property that names the file, without the cluster's alias."""

    mechanism: SaslMechanism
    reason: str
    key: str

    @property
    def user(self) -> str:
        return ""

    @property
    def secrets(self) -> tuple[str, ...]:
        return ()

    @property
    def files(self) -> tuple[str, ...]:
        return ()


SaslLogin = PasswordLogin | KerberosLogin | OAuthLogin | UnusableLogin
"""How a client logs in."""
