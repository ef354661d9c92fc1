"""Which of a partition's steps is shown, and in which states it can be then."""

from __future__ import annotations

import pytest

from mm2.core.lanes.partition_steps import STATES_OF_STEPS, FetchStep, NodeStep, SendStep, StepReport, shown_step


@pytest.mark.parametrize(
    ("fetching", "sending", "shown"),
    [
        (FetchStep.FETCHING, SendStep.IN_FLIGHT, FetchStep.FETCHING),
        (FetchStep.FETCHING, SendStep.BACKOFF, SendStep.BACKOFF),
        (FetchStep.FULL, SendStep.AWAITS_PRODUCER_ID, SendStep.AWAITS_PRODUCER_ID),
        (FetchStep.FULL, SendStep.READY, FetchStep.FULL),
        (FetchStep.PAUSED, SendStep.BACKOFF, FetchStep.PAUSED),
        (FetchStep.STOPPED, SendStep.AWAITS_DEAD_LETTER, FetchStep.STOPPED),
    ],
)
def test_the_step_that_explains_the_partition_is_shown(fetching: str, sending: str, shown: str) -> None:
    assert shown_step(StepReport(fetching, 1.0), StepReport(sending, 2.0)).step == shown


def test_every_step_has_states() -> None:
    assert set(STATES_OF_STEPS) == {*FetchStep, *SendStep, *NodeStep}
    assert all(STATES_OF_STEPS.values())
