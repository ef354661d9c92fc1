"""The Spark task of a lane, which is serialized into the Spark job.

It contains a lane id, the node's address, a token, the client certificate of lanes if the node requires one, and no
other secret; everything else comes with the lease. The lane runner is imported only where it runs: the engine, which
imports this module too, does not need it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flows.spark.workers import reject_retry, starting_worker
from mm2.core.lanes.lease import LeaseEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTask:
    """The function of one Spark task. ``token`` is valid for one run of the lane."""

    lane: int
    place: LeaseEndpoint
    token: str = field(repr=False)

    def __call__(self, rows: Iterable[None]) -> Iterable[None]:
        """Run the lane until its orders end it; consumes and returns no rows (`RDD.mapPartitions`)."""
        reject_retry(self.lane)
        with starting_worker():
            from flows.lane import loop_load  # noqa: PLC0415 see above
            from flows.lane.lane_runner import run_lane  # noqa: PLC0415
        for _ in rows:
            continue
        loop_load.run(run_lane(self.place, lane=self.lane, token=self.token))
        return iter(())
