"""What provides tokens, and the sources that need no network: a file, and the client itself."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Protocol

from mm2.core.oauth.tokens import BearerToken, TokenInvalid, read_jwt, unsecured_token
from mm2.core.settings.oauth import TokenFile, UnsecuredToken
from mm2.kafka.sasl import credential_files
from mm2.kafka.sasl.login import LoginFailed

URL = "sasl.oauthbearer.token.endpoint.url"


class TokenRefused(LoginFailed):
    """The endpoint rejected the client: the same request would be rejected again (RFC 6749 section 5.2)."""


class TokenSource(Protocol):
    """Obtains tokens. ``key``: the property to check if there is none. ``if_expired``: what to do if a token has
    already expired, the end of a message."""

    @property
    def key(self) -> str: ...
    @property
    def if_expired(self) -> str: ...
    def token(self) -> BearerToken:
        """Return a new token. Blocks; never called by two threads at once. Raises LoginFailed."""


def text_of(file: str | None, content: str | None, key: str) -> str:
    """Return the text of ``file`` as it is now, or ``content`` without one. Raises LoginFailed."""
    if file is None:
        assert content is not None, "a login has a file or its content"
        return content
    try:
        return credential_files.read(file).decode()
    except OSError as error:
        raise LoginFailed(f"{file} cannot be read ({error.strerror})", key) from error
    except UnicodeDecodeError as error:
        raise LoginFailed(f"{file} is not a text file", key) from error


@dataclass(frozen=True, slots=True)
class FileTokens:
    """The token of a file."""

    settings: TokenFile
    sub_claim: str
    key: ClassVar[str] = URL
    if_expired: ClassVar[str] = "write a new token to the file"

    def token(self) -> BearerToken:
        text = text_of(self.settings.file, self.settings.jwt, self.key)
        try:
            return read_jwt(text, sub_claim=self.sub_claim)
        except TokenInvalid as error:
            raise LoginFailed(f"the file contains no token: {error}", self.key) from error


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Tokens without signature, which the client issues itself (KIP-255)."""

    settings: UnsecuredToken
    key: ClassVar[str] = "sasl.jaas.config"
    if_expired: ClassVar[str] = "increase unsecuredLoginLifetimeSeconds"

    def token(self) -> BearerToken:
        now, lifetime = time.time(), self.settings.lifetime_seconds
        value = unsecured_token(self.settings.claims, now=now, lifetime=lifetime)
        return BearerToken(value=value, expires_at=now + lifetime, issued_at=now)
