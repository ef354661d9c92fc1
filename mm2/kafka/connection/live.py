"""An open connection, and the renewal of its SASL session (KIP-368)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from mm2.core.settings.client import ClientSettings
from mm2.kafka.connection.diagnosis import BrokerEndpoint, explain
from mm2.kafka.connection.dialling import LOGIN_SECONDS, SETUP_ERRORS, Authentication
from mm2.kafka.connection.frames import FramedConnection
from mm2.kafka.sasl.login import LoginFailed
from mm2.kafka.sasl.session import Session

log = logging.getLogger("mm2.connection")


@dataclass(slots=True)
class LiveConnection:
    """A connection on which requests can be sent. ``greeted``: the broker has answered one. ``session``: None without
    SASL, or if the broker does not end sessions."""

    connection: FramedConnection
    peer: BrokerEndpoint
    settings: ClientSettings
    authentication: Authentication
    greeted: bool = False
    session: Session | None = None
    _renewal: asyncio.Task[bool] | None = None

    @property
    def is_open(self) -> bool:
        return bool(self.connection.connected())

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent now, without authenticating again first."""
        return self.is_open and (self.session is None or not self.session.is_due)

    async def renew(self) -> bool:
        """Authenticate again, after the session has become due. Returns False if the connection cannot be used any
        longer.

        Without new credentials the connection keeps its session until that ends. A caller that is cancelled does not
        interrupt the exchange, which the broker could not resume: the next one waits for the same renewal.
        """
        session = self.session
        assert session is not None, "only sessions become due"
        if self._renewal is None:
            if not session.may_be_renewed:
                return False  # the credentials were about to expire
            self._renewal = asyncio.create_task(self._renew(session), name=f"authenticate again to {self.peer}")
        renewal = self._renewal
        await asyncio.wait([renewal])
        if renewal is self._renewal:
            self._renewal = None
        return not renewal.cancelled() and renewal.result()

    def give_up(self) -> asyncio.Task[bool] | None:
        """Cancel a renewal in progress, and return it: the connection is being closed."""
        if self._renewal is not None:
            self._renewal.cancel()
        return self._renewal

    async def _renew(self, session: Session) -> bool:
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                await self.authentication.log_in(self.settings)
        except (LoginFailed, TimeoutError) as error:
            return self._postponed(session, error)
        try:
            async with asyncio.timeout(self.settings.request_timeout_ms / 1000):
                self.session = await self.authentication.session(self.connection, self.settings, self.peer.host)
        except LoginFailed as error:  # nothing has been sent
            return self._postponed(session, error)
        except SETUP_ERRORS as error:  # the broker closes the connection when it has rejected the credentials
            log.warning("%s", explain(error, self.peer, self.settings, greeted=True))
            return False
        return True

    def _postponed(self, session: Session, error: BaseException) -> bool:
        log.warning("%s", explain(error, self.peer, self.settings, greeted=True))
        session.postpone()
        return not session.is_over
