from __future__ import annotations

import pytest

from mm2.core.settings.client import OffsetReset, read_start_point


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", OffsetReset.EARLIEST),
        ("latest", OffsetReset.LATEST),
        ("2026-11-01T00:00:00Z", 1_793_491_200_000),
        ("2026-11-01T01:00:00+01:00", 1_793_491_200_000),
        ("2026-11-01T00:00:00.001Z", 1_793_491_200_001),
        ("2026-11-01T00:00Z", 1_793_491_200_000),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_start_points(text: str, start: OffsetReset | int) -> None:
    assert read_start_point(text) == start


@pytest.mark.parametrize("text", ["", "none", "Latest", "1793491200000", "tomorrow", "2026-13-01T00:00:00Z"])
def test_other_words(text: str) -> None:
    with pytest.raises(ValueError, match="must be earliest, latest, or a time such as 2026-11-01T00:00:00Z"):
        read_start_point(text)


@pytest.mark.parametrize("text", ["2026-11-01", "2026-11-01T00:00:00"])
def test_a_time_without_time_zone(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time with a time zone"):
        read_start_point(text)


def test_a_time_before_the_epoch() -> None:
    with pytest.raises(ValueError, match="must not be a time before 1970"):
        read_start_point("1969-12-31T23:59:59Z")
