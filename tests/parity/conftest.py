"""The scenario runs once for all tests of this directory."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.conftest import SEED
from tests.parity.scenario import Scenario, run_scenario


@pytest.fixture(scope="package")
def scenario() -> Iterator[Scenario]:
    """Results of a run in which mm2 and Java took turns. The first test that uses it takes the time."""
    with run_scenario(random.Random(f"{SEED}:parity")) as seen:
        yield seen
