from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mm2.core.settings.kerberos import KerberosLogin, TicketRenewal
from mm2.kafka.sasl.kerberos.gss_errors import KerberosError
from mm2.kafka.sasl.kerberos.kerberos_tickets import KerberosTickets, TicketTimes, kerberos_login
from mm2.kafka.sasl.login import CredentialsRejected, LoginFailed
from tests.lab.waiting import wait_until
from tests.unit.kafka.sasl.renewals import renew_in_threads


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an executor whose archive was packed without it."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(
        LoginFailed, match=r"gssapi cannot be loaded .*: install it from requirements-kerberos"
    ) as error:
        kerberos_login(KerberosLogin(service_name="kafka", principal="alice@A"))
    assert error.value.key == "sasl.mechanism"


class Tickets(KerberosTickets):
    """Tickets from a KDC that answers, refuses, or is silent until ``may_answer`` is set."""

    def __init__(
        self,
        keytab: str = "old",
        *,
        keytab_file: str | None = None,
        lifetime: float = 3_600.0,
        renew_after: float = 3_000.0,
        **options: Any,
    ) -> None:
        """``options``: of `KerberosTickets`."""
        self.lifetime, self.renew_after = lifetime, renew_after
        self.requests = 0
        self.failure: Exception | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        renewal = TicketRenewal(min_seconds=1.0)
        super().__init__(
            KerberosLogin(
                service_name="kafka", principal="alice@A", keytab=keytab, keytab_file=keytab_file, renewal=renewal
            ),
            **options,
        )

    def _obtain(self) -> tuple[Any, float]:
        self.requests += 1
        assert self.may_answer.wait(30)
        if self.failure is not None:
            raise self.failure
        ticket = SimpleNamespace(number=self.requests, lifetime=self.lifetime, end=time.monotonic() + self.lifetime)
        return ticket, self.renew_after

    @property
    def ticket(self) -> int:
        assert self._credentials is not None
        number: int = vars(self._credentials)["number"]
        return number

    def expire_window(self) -> None:
        self._due = 0.0

    def stop(self) -> None:
        self.may_answer.set()
        if self._timer is not None:
            self._timer.cancel()


@pytest.fixture
def tickets() -> Iterator[Callable[..., Tickets]]:
    created: list[Tickets] = []

    def create(*args: Any, **options: Any) -> Tickets:
        created.append(Tickets(*args, **options))
        return created[-1]

    yield create
    for one in created:
        one.stop()


@pytest.fixture(autouse=True)
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """An authentication needs one call of the library, which takes ``seconds_of_step``."""

    def exchange(credentials: Any, principal: str, service: str, host: str, limited: Callable[..., Any]) -> Any:
        limited(lambda: time.sleep(float(host)))
        yield b"token"

    monkeypatch.setitem(sys.modules, "mm2.kafka.sasl.kerberos.gss_exchange", SimpleNamespace(exchange=exchange))


def test_a_ticket_is_kept(tickets: Callable[..., Tickets]) -> None:
    login = tickets()
    assert login.is_due
    login.renew()
    assert not login.is_due
    login.renew()
    assert (login.requests, login.ticket) == (1, 1)


def test_many_connections_share_a_request(tickets: Callable[..., Tickets]) -> None:
    login = tickets()
    renew_in_threads(login.renew, login, threads=10)
    assert login.requests == 1


def test_without_a_ticket_failures_are_raised(tickets: Callable[..., Tickets]) -> None:
    login = tickets()
    login.failure = KerberosError("refused", "key")
    for _ in range(3):
        with pytest.raises(KerberosError, match="refused") as error:
            login.renew()
        assert error.value.key == "key"
    assert login.requests == 1, "there is a pause"
    login.failure = None
    login.expire_window()
    login.renew()
    assert login.ticket == 2


def test_a_replaced_file_ends_the_pause(tickets: Callable[..., Tickets], tmp_path: Path) -> None:
    file = tmp_path / "mm2.keytab"
    file.write_text("old")
    login = tickets(keytab_file=str(file))
    login.failure = KerberosError("refused", "key")
    for _ in range(2):
        with pytest.raises(KerberosError, match="refused"):
            login.renew()
    assert login.requests == 1, "there is a pause"
    login.failure = None
    (tmp_path / "new").write_text("newer")
    (tmp_path / "new").rename(file)
    login.renew()
    assert login.ticket == 2


def test_an_unexpected_failure(tickets: Callable[..., Tickets]) -> None:
    login = tickets()
    login.failure = ValueError("broken")
    with pytest.raises(KerberosError, match="no ticket for alice@A: ValueError: broken"):
        login.renew()


def test_a_silent_kdc_delays_a_connection_with_a_ticket_for_a_moment(tickets: Callable[..., Tickets]) -> None:
    """Invariant C."""
    login = tickets(times=TicketTimes(wait_s=0.2))
    login.renew()
    login.may_answer.clear()
    login.expire_window()
    began = time.monotonic()
    login.renew()
    assert 0.15 < time.monotonic() - began < 5
    assert not login.is_due, "no other connection waits for it"
    login.renew()
    assert (login.requests, login.ticket) == (2, 1)
    login.may_answer.set()
    wait_until(lambda: login.ticket == 2, 10, "the renewal has ended")
    assert not login.is_due


def test_a_failed_renewal_is_repeated_in_the_background(tickets: Callable[..., Tickets]) -> None:
    """Invariant C."""
    login = tickets()
    login.renew()
    login.failure = KerberosError("refused")
    login.expire_window()
    login.renew()
    assert login.ticket == 1
    login.failure = None
    wait_until(lambda: login.ticket == 3, 10, "the ticket was renewed after a second")


AT_ONCE = TicketTimes(rejected_s=0.0)  # a rejected ticket is replaced without a minimum age


@pytest.mark.parametrize("error", [CredentialsRejected(), ValueError("invalid answer"), KerberosError("rejected")])
def test_a_rejected_ticket_is_replaced(tickets: Callable[..., Tickets], error: Exception) -> None:
    """Invariant D."""
    login = tickets(times=AT_ONCE)
    login.renew()
    exchange = login.exchange("0")
    next(exchange)
    with pytest.raises(type(error)):
        exchange.throw(error)
    login.renew()
    assert login.ticket == 2


def test_a_connection_that_ends_during_an_authentication_rejects_no_ticket(tickets: Callable[..., Tickets]) -> None:
    """Invariant D."""
    login = tickets(times=AT_ONCE)
    login.renew()
    exchange = login.exchange("0")
    next(exchange)
    exchange.close()
    assert not login.is_due


def test_a_rejection_does_not_shorten_the_pause_after_a_failure(tickets: Callable[..., Tickets]) -> None:
    """Invariant D: requests with a wrong key can lock the account."""
    login = tickets(times=AT_ONCE)
    login.renew()
    login.failure = KerberosError("the KDC rejects the key", is_lasting=True)
    login.expire_window()
    login.renew()
    for _ in range(5):
        exchange = login.exchange("0")
        next(exchange)
        with pytest.raises(CredentialsRejected):
            exchange.throw(CredentialsRejected())
        login.renew()
    assert login.requests == 2


def test_a_ticket_that_expires_before_its_renewal_is_replaced(tickets: Callable[..., Tickets]) -> None:
    """A ticket cache can contain one that is about to expire."""
    login = tickets(lifetime=0.1)
    login.renew()
    wait_until(lambda: login.is_due, 10, "the ticket has expired")
    login.lifetime = 3_600.0
    login.renew()
    assert login.ticket == 2


def test_a_ticket_that_has_expired_on_arrival(tickets: Callable[..., Tickets]) -> None:
    login = tickets(lifetime=0.0)
    with pytest.raises(KerberosError, match="the ticket of alice@A has expired"):
        login.renew()
    login.lifetime = 3_600.0
    login.renew()
    assert login.ticket == 2


@pytest.mark.parametrize("is_new_connection", [False, True])
def test_renewals_resume_for_a_configuration_that_returns(
    tickets: Callable[..., Tickets], is_new_connection: bool
) -> None:
    """Invariant B."""
    first = tickets("first", renew_after=1.0)
    first.renew()
    second = tickets("second")
    second.renew()
    wait_until(lambda: first.is_due, 10, "the timer of the first login has fired")
    time.sleep(0.2)
    assert first.requests == 1, "another login is in use"
    if is_new_connection:
        first.renew()
    else:
        next(first.exchange("0"))
    assert (first.is_newest, second.is_newest) == (True, False)
    reached = first.requests + 2
    wait_until(lambda: first.requests >= reached, 10, "the first login is renewed in the background again")
    assert second.requests == 1


def test_host_name_and_step_have_one_deadline(tickets: Callable[..., Tickets]) -> None:
    def silent_dns(host: str, krb5_conf: str | None) -> str:
        time.sleep(0.7)
        return host

    login = tickets(times=TicketTimes(exchange_s=1.0), name_of=silent_dns)
    login.renew()
    began = time.monotonic()
    with pytest.raises(KerberosError, match="no KDC answers for alice@A within 1 s"):
        next(login.exchange("5"))
    assert time.monotonic() - began < 1.5
    assert next(login.exchange("0")) == b"token"
