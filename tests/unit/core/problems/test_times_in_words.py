from __future__ import annotations

import pytest

from mm2.core.problems.times_in_words import length_text, utc_text


def test_times() -> None:
    assert utc_text(1_763_740_800.9) == "2025-11-21T16:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (119.9, "119 s"),
        (120, "2 min"),
        (3_599, "59 min"),
        (3_600, "1 h 0 min"),
        (172_799, "47 h 59 min"),
        (180_000, "2 d 2 h"),
    ],
)
def test_lengths(seconds: float, text: str) -> None:
    assert length_text(seconds) == text
