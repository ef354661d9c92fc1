from __future__ import annotations

from mm2.core.access.failed_logins import OTHER_ADDRESSES, FailedLoginReport, FailedLogins, LoginFailure

WRONG, ROLE = LoginFailure.WRONG, LoginFailure.ROLE


def test_the_first_is_reported_at_once_and_the_others_once_a_minute() -> None:
    logins = FailedLogins()
    first = logins.add("10.0.0.7", WRONG, "wrong token", 100.0)
    assert first == FailedLoginReport(address="10.0.0.7", detail="wrong token", name=None, count=1)
    assert [logins.add("10.0.0.7", WRONG, "wrong token", 100.0 + one) for one in range(30)] == [None] * 30
    assert logins.add("10.0.0.7", ROLE, "bob is a viewer", 131.0, name="bob") is None
    assert logins.add("10.0.0.8", WRONG, "wrong token", 131.0) is not None, "each address has a first one"
    assert logins.due(159.0) == []
    assert logins.due(160.0) == [
        FailedLoginReport(address="10.0.0.7", detail="bob is a viewer", name="bob", count=31)
    ], "with the last reason"
    assert logins.due(191.0) == [], "nothing has failed since"
    assert logins.due(220.0) == []
    assert logins.add("10.0.0.7", WRONG, "wrong token", 221.0) is not None, "it was forgotten after a minute"
    assert logins.counts == {WRONG: 33, ROLE: 1, LoginFailure.MISSING: 0, LoginFailure.UNENCRYPTED: 0}


def test_many_addresses_are_counted_together() -> None:
    logins = FailedLogins(most=2)
    reports = [logins.add(f"10.0.0.{one}", WRONG, "wrong token", 0.0) for one in range(100)]
    assert [one.address for one in reports if one is not None] == ["10.0.0.0", "10.0.0.1", OTHER_ADDRESSES]
    (rest,) = logins.due(60.0)
    assert (rest.address, rest.count) == (OTHER_ADDRESSES, 97)
    assert logins.counts[WRONG] == 100
