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
