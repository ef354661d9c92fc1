"""Failed logins at the REST interface: their numbers, and which of them are logged.

The first of an address is reported at once, the following ones as a number, once a minute: a client with a wrong token
can send thousands of requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

REPORT_EVERY_S = 60.0

MOST_ADDRESSES = 1_000
"""Addresses that are counted one by one, about 200 kB; further ones are counted together."""

OTHER_ADDRESSES = "other addresses"


class LoginFailure(StrEnum):
    """Why a request is rejected; the label ``reason`` of mm2_rest_failed_logins_total."""

    MISSING = "missing-token"
    WRONG = "wrong-token"
    ROLE = "role"
    UNENCRYPTED = "unencrypted"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLoginReport:
    """``count`` requests of an address were rejected since its last report, the last of them with ``detail``.
    ``name``: whose token it had; None: no valid one."""

    address: str
    detail: str
    name: str | None
    count: int


@dataclass(slots=True)
class _Address:
    since: float
    pending: int
    detail: str
    name: str | None


class FailedLogins:
    """Counts failed logins. Times are monotonic seconds.

    Invariants: (A) `counts` has each of them. (B) The sum of the counts of all reports is the same, as soon as `due`
    was called `REPORT_EVERY_S` after the last one.
    """

    def __init__(self, *, every_s: float = REPORT_EVERY_S, most: int = MOST_ADDRESSES) -> None:
        self._every_s = every_s
        self._most = most
        self._counts: Counter[LoginFailure] = Counter()
        self._addresses: dict[str, _Address] = {}

    @property
    def counts(self) -> Mapping[LoginFailure, int]:
        """All of them, by reason."""
        return {why: self._counts[why] for why in LoginFailure}

    def add(
        self, address: str, why: LoginFailure, detail: str, now: float, *, name: str | None = None
    ) -> FailedLoginReport | None:
        """Count one; return what to report at once, if anything."""
        self._counts[why] += 1
        if address not in self._addresses and len(self._addresses) >= self._most:
            address = OTHER_ADDRESSES
        known = self._addresses.get(address)
        if known is None:
            self._addresses[address] = _Address(now, 0, detail, name)
            return FailedLoginReport(address=address, detail=detail, name=name, count=1)
        known.pending, known.detail, known.name = known.pending + 1, detail, name
        return None

    def due(self, now: float) -> list[FailedLoginReport]:
        """Return the numbers to report now."""
        found = []
        for address, one in list(self._addresses.items()):
            if now - one.since < self._every_s:
                continue
            if one.pending:
                found.append(FailedLoginReport(address=address, detail=one.detail, name=one.name, count=one.pending))
                one.since, one.pending = now, 0
            else:
                del self._addresses[address]
        return found
