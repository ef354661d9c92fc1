"""A partition's progress, as the node is told."""

from __future__ import annotations

from flows.copy import PartitionCopy
from mm2.core.lease import PartitionProgress, TaskState


def progress_of(copy: PartitionCopy, now: float, wall: float, *, stopped: bool = False) -> PartitionProgress:
    """How far it is at ``now`` monotonic and ``wall`` epoch seconds; ``stopped``: it has left the slot."""
    tally, headway = copy.tally, copy.headway
    return PartitionProgress(
        topic=copy.source.topic,
        partition=copy.source.partition,
        remote_topic=copy.target.topic,
        state=TaskState.STOPPED if stopped else _state(copy),
        position=headway.position,
        stored=headway.stored,
        end_offset=headway.end_offset,
        lag_seconds=headway.lag_seconds(copy.oldest_waiting, now, wall),
        records_total=tally.records,
        bytes_total=tally.stored_bytes,
        latency_sum=tally.latency_sum,
        latency_count=tally.latency_count,
        age_sum=tally.age_sum,
        age_count=tally.age_count,
        error=copy.trouble.words,
    )


def telling(copy: PartitionCopy) -> tuple[object, ...] | None:
    """Equal to what it was: a report of the partition says the same as then. None: it lags, and the lag grows older."""
    tally, headway = copy.tally, copy.headway
    if headway.position < headway.end_offset:
        return None
    return (
        headway.position,
        headway.end_offset,
        headway.stored,
        tally.records,
        tally.latency_count,
        tally.age_count,
        copy.trouble.words,
        copy.trouble.failed,
        copy.trouble.waits,
        copy.inlet.closed,
    )


def _state(copy: PartitionCopy) -> TaskState:
    if copy.trouble.failed:
        return TaskState.FAILED
    if copy.inlet.closed:
        return TaskState.DRAINING
    return TaskState.WAITING if copy.headway.end_offset < 0 or copy.trouble.waits else TaskState.RUNNING
