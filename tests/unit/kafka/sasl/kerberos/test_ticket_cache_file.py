from __future__ import annotations

import fcntl
import logging
from base64 import b64encode
from pathlib import Path

import pytest

from mm2.core.settings.kerberos import KerberosLogin, TicketRenewal
from mm2.kafka.sasl import credential_files
from mm2.kafka.sasl.kerberos.gss_errors import KerberosError
from mm2.kafka.sasl.kerberos.ticket_cache_file import TicketCacheFile
from tests.unit.core.kerberos.formats import cache_of, tgt_of

ALICE = "alice@MM2.TEST"
START, END = 2_000_000_000, 2_000_036_000  # of the tickets in `cache_of`
WINDOW = START + 0.8 * (END - START)


class Clock:
    """Both clocks of a machine."""

    def __init__(self) -> None:
        self.now = WINDOW

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - START

    def cache(self, login: KerberosLogin) -> TicketCacheFile:
        return TicketCacheFile(login, clock=self.time, monotonic=self.monotonic)


class Kinit:
    """A program that fails, or replaces the cache by a ticket that ends at ``end``; and the login that uses it."""

    def __init__(self, directory: Path) -> None:
        self.file, self._runs, self._next = (directory / name for name in ("cache", "runs", "next"))
        self.file.write_bytes(content())
        program = directory / "kinit"
        program.write_text(f'#!/bin/sh\necho "$@" >> {self._runs}\ncp {self._next} "$3"\n')
        program.chmod(0o755)
        self.login = KerberosLogin(
            service_name="kafka",
            principal=ALICE,
            ticket_cache_file=str(self.file),
            renewal=TicketRenewal(kinit=str(program)),
        )

    def mend(self, end: int) -> None:
        self._next.write_bytes(content(end=end))

    @property
    def runs(self) -> list[str]:
        return self._runs.read_text().splitlines() if self._runs.exists() else []


def content(**times: int) -> bytes:
    return cache_of(ALICE, tgt_of(ALICE), **times)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kinit(tmp_path: Path) -> Kinit:
    return Kinit(tmp_path)


def test_a_ticket_is_renewed_when_its_window_is_reached(kinit: Kinit, clock: Clock) -> None:
    """Hours before it expires."""
    kinit.mend(END + 7_200)
    cache = clock.cache(kinit.login)
    clock.now = WINDOW - 1
    assert cache.renewed().ticket.end == END
    assert cache.seconds_until_renewal(cache.renewed(), share=0.0) == 60.0  # Java's min.time.before.relogin
    assert kinit.runs == []
    clock.now = WINDOW
    assert cache.renewed().ticket.end == END + 7_200
    assert kinit.runs == [f"-R -c {kinit.file}"]
    cache.renewed()
    assert len(kinit.runs) == 1


@pytest.mark.parametrize("renew_till", [0, END - 60])
def test_a_ticket_that_cannot_be_renewed(kinit: Kinit, clock: Clock, renew_till: int) -> None:
    kinit.file.write_bytes(content(end=END + 1, renew_till=renew_till))
    clock.now = END - 30
    assert clock.cache(kinit.login).renewed().ticket.end == END + 1
    assert kinit.runs == []


def test_pauses_after_failures_grow(kinit: Kinit, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    cache = clock.cache(kinit.login)
    clock.now = END - 50  # Java's minimum time does not apply any longer
    with caplog.at_level(logging.WARNING, "mm2.kerberos"):
        while clock.now < END:
            cache.renewed()
            clock.now += 1
    assert len(kinit.runs) == 6  # after 0, 1, 3, 7, 15 and 31 s
    assert len(caplog.records) == 6
    assert f"cannot renew the ticket of {ALICE}" in caplog.text
    assert cache.seconds_until_renewal(cache.renewed(), share=0.0) == 32.0
    kinit.mend(END + 72_000)
    clock.now += 32
    assert cache.renewed().ticket.end == END + 72_000
    assert cache.seconds_until_renewal(cache.renewed(), share=0.0) > 60


def test_a_renewal_without_a_later_ticket_has_failed(kinit: Kinit, clock: Clock) -> None:
    kinit.mend(END)
    cache = clock.cache(kinit.login)
    assert [cache.renewed().ticket.end for _ in range(3)] == [END] * 3
    assert len(kinit.runs) == 1


def test_a_ticket_that_another_process_renews(kinit: Kinit, clock: Clock) -> None:
    kinit.mend(END + 7_200)
    cache = clock.cache(kinit.login)
    with kinit.file.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert cache.renewed().ticket.end == END, "nobody waits for it"
    assert kinit.runs == []
    assert cache.renewed().ticket.end == END + 7_200


def test_a_file_on_another_machine(kinit: Kinit, clock: Clock) -> None:
    """The lane uses what its node sends, and the node renews it."""
    kinit.file.unlink()
    cache = clock.cache(kinit.login)
    try:
        for end in (END, END + 7_200):
            credential_files.deliver({str(kinit.file): b64encode(content(end=end)).decode()})
            assert cache.renewed().ticket.end == end
    finally:
        credential_files.deliver({})
    assert kinit.runs == []


def test_a_file_that_is_being_replaced(kinit: Kinit, clock: Clock) -> None:
    cache = clock.cache(kinit.login)
    kinit.file.write_bytes(cache_of("bob@MM2.TEST", tgt_of("bob@MM2.TEST")))
    with pytest.raises(KerberosError, match=f"contains the ticket of bob@MM2.TEST, not of {ALICE}"):
        cache.renewed()
    kinit.file.unlink()
    with pytest.raises(KerberosError, match=f"ticket cache {kinit.file} cannot be read .No such file"):
        cache.renewed()
    kinit.file.write_bytes(content(end=END + 1))
    assert cache.renewed().ticket.end == END + 1
    kinit.file.write_bytes(b"")
    assert cache.renewed().ticket.end == END + 1
