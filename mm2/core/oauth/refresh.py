"""Computes when a token is renewed (ExpiringCredentialRefreshingLogin of Kafka's clients, KIP-255)."""

from __future__ import annotations

from mm2.core.settings.oauth import RefreshSettings


def refresh_time(
    settings: RefreshSettings, *, now: float, issued_at: float | None, expires_at: float, share: float
) -> float:
    """Return the time at which a token that was obtained ``now`` is renewed.

    Times are seconds since the epoch. ``share``, from 0 to 1, is chosen at random: it selects a time within the
    jitter. The minimum period and the buffer before the expiry apply only if there is time for both.
    """
    factor = settings.window_factor + settings.window_jitter * share
    if now + settings.min_period_seconds + settings.buffer_seconds > expires_at:
        return now + max(0.0, expires_at - now) * factor
    start = now if issued_at is None else issued_at
    proposed = start + (expires_at - start) * factor
    latest = expires_at - settings.buffer_seconds
    if proposed > latest:
        return latest
    return max(proposed, now + settings.min_period_seconds)
