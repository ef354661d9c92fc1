"""The story is played once for all tests of this directory."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.conftest import SEED
from tests.parity.story import Story, told


@pytest.fixture(scope="package")
def story() -> Iterator[Story]:
    """What was seen when we and Java took turns. Whichever test comes first pays for it."""
    with told(random.Random(f"{SEED}:parity")) as seen:
        yield seen
