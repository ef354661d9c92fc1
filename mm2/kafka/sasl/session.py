"""The time that a broker gives a SASL session (KIP-368)."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

_RETRY_SECONDS = 1.0  # until a renewal is tried again that failed for lack of credentials


MIN_INTERVAL_SECONDS = 1.05
"""Time between two authentications of a connection. A broker rejects a third one within a second
(KafkaChannel.maybeBeginServerReauthentication); with a margin for the way there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShares:
    """What is done when in a session, as shares of its lifetime."""

    earliest: float = 0.85
    """A session is renewed at random between this and ``latest``, as in Java (ReauthenticationInfo of
    SaslClientAuthenticator), so that connections that were opened together do not authenticate together."""

    latest: float = 0.95

    usable: float = 0.98
    """Nothing else is sent from then on: a request must arrive before the broker ends the session."""


SHARES = SessionShares()


@dataclass(slots=True)
class Session:
    """Times on the monotonic clock, in seconds. ``due``: from when on the client authenticates again before it sends.
    ``end``: from when on it sends nothing else. ``earliest``: not before this time brokers allow it to authenticate
    again."""

    due: float
    end: float
    earliest: float = 0.0

    @classmethod
    def of(cls, lifetime: float, *, since: float, shares: SessionShares = SHARES) -> Session:
        """Return a session of ``lifetime`` seconds. ``since``: a time shortly before the broker began it."""
        share = random.uniform(shares.earliest, shares.latest)  # noqa: S311 - spreads load, hides nothing
        end, earliest = since + lifetime * shares.usable, since + MIN_INTERVAL_SECONDS
        return cls(due=min(max(since + lifetime * share, earliest), end), end=end, earliest=earliest)

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self.due

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    @property
    def may_be_renewed(self) -> bool:
        """Whether brokers allow the connection to authenticate again; otherwise only a new connection can."""
        return time.monotonic() >= self.earliest

    def postpone(self) -> None:
        """Renew later, but not after the end: a renewal has failed and left the session as it was."""
        self.due = min(time.monotonic() + _RETRY_SECONDS, self.end)
