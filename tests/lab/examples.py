"""How many examples a property gets, by the profile of the run (``MM2_HYPOTHESIS``)."""

from __future__ import annotations

import os

PROFILE = os.environ.get("MM2_HYPOTHESIS", "mm2")
PART = {
    "explore": 1,  # `make test-long`: new examples each time
    "mm2": 5,  # `make test`: the same each time, so more of them would find something only once
    "few": 10,  # `make test-versions`: another Python
}
LEAST = 10


def examples(explored: int) -> int:
    """Return ``max_examples`` of a costly property that tries ``explored`` of them in `make test-long`."""
    return max(min(LEAST, explored), explored // PART[PROFILE])
