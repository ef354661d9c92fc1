"""Logins that wait do not delay other work of the process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from aiokafka.protocol.admin import SaslAuthenticateResponse_v0, SaslHandShakeRequest, SaslHandShakeResponse_v1

from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.kafka.sasl.login import Exchange, Login
from mm2.kafka.sasl.logins import THREADS_OF_A_KIND, authenticate, login_of, renewed
from tests.lab.busy_threads import busy_threads

SOON = 30.0  # seconds
PLAIN = PasswordLogin(mechanism=SaslMechanism.PLAIN, username="user", password="pencil")


class WaitingLogin:
    """Waits for a server that does not answer, until ``answer`` is set."""

    def __init__(self, answer: threading.Event) -> None:
        self.is_due = True
        self._answer = answer

    def renew(self) -> None:
        self._answer.wait()
        self.is_due = False

    def exchange(self, host: str) -> Exchange:
        raise NotImplementedError


async def log_in(login: Login) -> None:
    """Authenticate to a broker that accepts everything."""

    async def send(request: Any) -> Any:
        if isinstance(request, SaslHandShakeRequest):
            return SaslHandShakeResponse_v1(0, ["PLAIN"])
        return SaslAuthenticateResponse_v0(0, None, b"")

    await authenticate(send, "PLAIN", login, "b1")


async def test_logins_that_wait_delay_no_name_look_ups_and_no_other_logins() -> None:
    answer = threading.Event()
    waiting = [asyncio.create_task(renewed(WaitingLogin(answer))) for _ in range(2 * THREADS_OF_A_KIND)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(SOON):
            await asyncio.get_running_loop().getaddrinfo("localhost", 9092)
            await log_in(login_of(PLAIN))
    finally:
        answer.set()
        await asyncio.gather(*waiting)


async def test_logins_do_not_wait_for_other_work() -> None:
    answer = threading.Event()
    answer.set()
    with busy_threads():
        async with asyncio.timeout(SOON):
            await renewed(WaitingLogin(answer))
            await log_in(login_of(PLAIN))
