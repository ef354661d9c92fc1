"""What the engine shows in Spark's UI."""

from flows.engine import job_title
from mm2.core.lanes.lease import LaneStart


def test_the_job_title_names_the_source_tasks_of_the_start() -> None:
    start = LaneStart(lane=3, token="t", description="A->B source tasks 1, 3")
    assert job_title(start) == (
        "mm2 lane 3 (started with A->B source tasks 1, 3; mm2 status lists the current source tasks)"
    )


def test_the_job_title_never_claims_that_a_lane_has_no_source_tasks() -> None:
    """A lane may start before its first assignment, and Spark shows the title until its job ends."""
    start = LaneStart(lane=0, token="t", description="")
    assert job_title(start) == "mm2 lane 0 (mm2 status lists the source tasks of this node)"
