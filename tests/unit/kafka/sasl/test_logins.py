from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from mm2.core.settings.sasl import PasswordLogin, SaslMechanism, UnusableLogin
from mm2.kafka.sasl.login import Exchange, LoginFailed
from mm2.kafka.sasl.logins import login_of, renewed


def test_clients_with_the_same_settings_share_a_login() -> None:
    one, same, other = (
        PasswordLogin(mechanism=SaslMechanism.PLAIN, username=user, password="p") for user in ("a", "a", "b")
    )
    assert login_of(one) is login_of(same)
    assert login_of(one) is not login_of(other)


class SlowLogin:
    def __init__(self) -> None:
        self.is_due = True
        self.calls = 0
        self.go_on = threading.Event()
        self.failure: LoginFailed | None = None

    def renew(self) -> None:
        self.calls += 1
        assert self.go_on.wait(5)
        if self.failure is not None:
            raise self.failure
        self.is_due = False

    def exchange(self, host: str) -> Exchange:
        raise NotImplementedError


async def test_connections_that_wait_share_one_renewal() -> None:
    login = SlowLogin()
    waiting = [asyncio.create_task(renewed(login)) for _ in range(20)]
    await asyncio.sleep(0.05)
    login.go_on.set()
    await asyncio.gather(*waiting)
    await renewed(login)
    assert login.calls == 1


async def test_connections_that_wait_share_its_failure() -> None:
    login = SlowLogin()
    login.failure = LoginFailed("no answer", "sasl.oauthbearer.token.endpoint.url")
    login.go_on.set()
    results = await asyncio.gather(*(renewed(login) for _ in range(5)), return_exceptions=True)
    assert login.calls == 1
    assert results == [login.failure] * 5
    login.failure = None
    await renewed(login)
    assert login.calls == 2


async def test_a_connection_that_stops_waiting_does_not_stop_the_renewal() -> None:
    login = SlowLogin()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await renewed(login)
    login.go_on.set()
    await renewed(login)
    assert login.calls == 1


async def test_a_failure_that_no_connection_waits_for_is_not_an_error(caplog: pytest.LogCaptureFixture) -> None:
    login = SlowLogin()
    login.failure = LoginFailed("no answer", "sasl.oauthbearer.token.endpoint.url")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await renewed(login)
    login.go_on.set()
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    gc.collect()
    assert not caplog.records


async def test_a_login_without_its_file_fails_with_the_reason() -> None:
    settings = UnusableLogin(mechanism=SaslMechanism.GSSAPI, reason="names a keytab that cannot be read", key="a.key")
    login = login_of(settings)
    for attempt in range(2):
        with pytest.raises(LoginFailed, match="names a keytab") as caught:
            await renewed(login)
        assert caught.value.key == "a.key", attempt
    with pytest.raises(LoginFailed, match="names a keytab"):
        login.exchange("broker")
    assert (settings.secrets, settings.files) == ((), ()), "lanes on other machines receive nothing of it"
