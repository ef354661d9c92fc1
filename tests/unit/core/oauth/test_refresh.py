"""The examples are those of ExpiringCredentialRefreshingLogin, by hand."""

from __future__ import annotations

import pytest

from mm2.core.settings.oauth import RefreshSettings
from mm2.kafka.sasl.oauthbearer import refresh_time

DEFAULTS = RefreshSettings()


@pytest.mark.parametrize(
    ("expires_at", "issued_at", "share", "expected"),
    [
        (3_600, 0, 0.0, 2_880),  # 80 % of an hour
        (3_600, 0, 1.0, 3_060),  # with the whole jitter
        (3_600, -3_600, 0.0, 2_160),  # the lifetime counts from the issue
        (3_600, None, 0.0, 2_880),  # which is now if it is not known
        (1_000, 0, 0.0, 700),  # 80 % is within the buffer of five minutes
        (400, -4_000, 0.0, 60),  # 80 % has passed, but not before a minute
        (370, 0, 0.0, 70),  # the buffer comes first
        (100, 0, 0.0, 80),  # too short for minimum period and buffer: both are ignored
        (100, -1_000, 0.0, 80),  # and so is the issue
        (0, -100, 0.0, 0),  # expired
        (-50, -100, 0.0, 0),
    ],
)
def test_refresh_time(expires_at: float, issued_at: float | None, share: float, expected: float) -> None:
    now = 0.0
    found = refresh_time(DEFAULTS, now=now, issued_at=issued_at, expires_at=expires_at, share=share)
    assert found == pytest.approx(expected)


def test_the_minimum_period() -> None:
    settings = RefreshSettings(min_period_seconds=60, buffer_seconds=0)
    assert refresh_time(settings, now=0, issued_at=-10_000, expires_at=100, share=0) == 60
