"""A partition's progress, as the node is told."""

from __future__ import annotations

from flows.copy import PartitionCopy
from mm2.core.lease import PartitionProgress, TaskState


def progress_of(copy: PartitionCopy, now: float, wall: float, *, stopped: bool = False) -> PartitionProgress:
    """How far it is at ``now`` monotonic and ``wall`` epoch seconds; ``stopped``: it has left the slot."""
    tally = copy.tally
    return PartitionProgress(
        topic=copy.source.topic,
        partition=copy.source.partition,
        remote_topic=copy.target.topic,
        state=TaskState.STOPPED if stopped else _state(copy),
        position=copy.position,
        stored=copy.stored,
        end_offset=copy.end_offset,
        lag_seconds=_lag_seconds(copy, now, wall),
        records_total=tally.records,
        bytes_total=tally.stored_bytes,
        latency_sum=tally.latency_sum,
        latency_count=tally.latency_count,
        age_sum=tally.age_sum,
        age_count=tally.age_count,
        error=copy.trouble.words,
    )


def _state(copy: PartitionCopy) -> TaskState:
    if copy.trouble.failed:
        return TaskState.FAILED
    if copy.draining:
        return TaskState.DRAINING
    return TaskState.WAITING if copy.end_offset < 0 else TaskState.RUNNING


def _lag_seconds(copy: PartitionCopy, now: float, wall: float) -> float:
    """0 when caught up, else how old the first batch not yet copied is; while that is not known, how long ago the
    partition was caught up."""
    if copy.position >= copy.end_offset:
        return 0.0
    timestamp = copy.oldest_waiting
    return max(0.0, wall - timestamp / 1000 if timestamp >= 0 else now - copy.caught_up)
