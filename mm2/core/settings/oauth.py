"""OAuth settings of a client (sasl.mechanism = OAUTHBEARER)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthLogin:
    """The client credentials grant of a token endpoint (KIP-768)."""

    mechanism: Literal["OAUTHBEARER"] = "OAUTHBEARER"
    token_endpoint_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None

    @property
    def user(self) -> str:
        return self.client_id

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.client_secret,)
