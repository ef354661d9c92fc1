from __future__ import annotations

import time

import pytest

from mm2.kafka.sasl.session import Session


def test_a_session_is_renewed_shortly_before_its_end() -> None:
    now = time.monotonic()
    for _ in range(100):
        session = Session.of(100.0, since=now)
        assert 85 <= session.due - now <= 95
        assert session.end - now == pytest.approx(98)
        assert not session.is_due
        assert not session.is_over


def test_a_broker_does_not_allow_two_renewals_within_a_second() -> None:
    now = time.monotonic()
    short = Session.of(1.1, since=now)
    assert short.due == short.earliest == now + 1.05
    shorter = Session.of(0.5, since=now - 0.5)
    assert shorter.due == shorter.end
    assert shorter.is_due
    assert not shorter.may_be_renewed
    assert Session.of(5.0, since=now - 2).may_be_renewed


def test_a_failed_renewal_is_repeated_until_the_end() -> None:
    now = time.monotonic()
    session = Session.of(100.0, since=now - 90)
    session.due = now
    assert session.is_due
    session.postpone()
    assert not session.is_due
    assert session.due - time.monotonic() <= 1
    late = Session.of(10.0, since=now - 9.5)
    late.postpone()
    assert late.due == late.end, "not after the end"
    over = Session.of(10.0, since=now - 10)
    over.postpone()
    assert over.is_due
    assert over.is_over
