"""A lane board without a clock or processes, and what its lanes and its engine report."""

from __future__ import annotations

import itertools

from mm2.core.lanes.engine_orders import EngineReport, EngineRole, LaneEnd, LaneStart
from mm2.core.lanes.lease import LaneQuery, LeaseRequest, OffsetsLease, PartitionLease, SourceTaskLease
from mm2.core.lanes.progress_reports import LaneProgress, PartitionProgress, SourceTaskProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow
from mm2.core.settings.client import ClientSettings, FetchSettings, ProduceSettings
from mm2.core.settings.row_query import ResultColumn, RowQuery
from mm2.node.engine.lane_board import LaneBoard

FLOW = Flow("A", "B")
CLIENT = ClientSettings(bootstrap_servers=("localhost:9092",))


def lane_query(name: str, text: str = "SELECT upper(value) AS value FROM records") -> LaneQuery:
    query = RowQuery(columns={ResultColumn.VALUE: "upper(value)"}, condition=None, text=text, sha256=text)
    return LaneQuery(name=name, action=query)


def source_task_lease(
    number: int, partitions: int = 1, *, flow: Flow = FLOW, query: LaneQuery | None = None, restart: int = 0
) -> SourceTaskLease:
    return SourceTaskLease(
        flow=flow,
        restart=restart,
        query=query,
        source_task=number,
        epoch=1,
        source=CLIENT,
        fetch=FetchSettings(),
        target=CLIENT,
        produce=ProduceSettings(),
        offsets=OffsetsLease(
            client=CLIENT, topic="mm2-offsets.A.internal", partitions=25, source_alias="A", flush_interval_ms=5000
        ),
        offset_syncs=None,
        partitions=tuple(
            PartitionLease(topic=f"t{number}", partition=p, remote_topic=f"A.t{number}", start_offset=0)
            for p in range(partitions)
        ),
    )


def new_board(lanes: int = 2, *, cluster: str | None = None) -> LaneBoard:
    counter = itertools.count()
    return LaneBoard(lanes=lanes, buffer_bytes=1 << 20, new_secret=lambda: f"secret-{next(counter)}", cluster=cluster)


def starts(board: LaneBoard, now: float) -> list[LaneStart]:
    """The lanes that all engines are to run."""
    return [start for engine in EngineRole for start in board.engine_orders(now, engine).lanes]


def token(board: LaneBoard, lane: int, now: float = 0.0) -> str:
    return next(start.token for start in starts(board, now) if start.lane == lane)


def ended(
    board: LaneBoard, lane: int, error: str | None = None, *, refused: bool = False, now: float = 0.0
) -> list[str]:
    """The engine of a lane reports its end."""
    engine = next(
        engine for engine in EngineRole if lane in [start.lane for start in board.engine_orders(now, engine).lanes]
    )
    end = LaneEnd(lane=lane, token=token(board, lane, now), error=error, refused=refused)
    return board.engine_report(EngineReport(version=0, pid=1, jvm_pid=2, spark_ui=None, ended=(end,)), now, engine)


def grant(board: LaneBoard, lane: int, now: float = 0.0, nonce: str = "process") -> str:
    return board.grant(lane, LeaseRequest(token=token(board, lane, now), nonce=nonce), now)


def report(board: LaneBoard, lane: int, session: str, now: float, *, drained: bool = False) -> None:
    source_tasks = tuple(
        SourceTaskProgress(
            flow=s.flow, source_task=s.source_task, epoch=s.epoch, state=TaskState.RUNNING, drained=drained
        )
        for s in board.lane_orders(lane).source_tasks
    )
    board.lane_report(lane, session, LaneProgress(version=1, pid=1, source_tasks=source_tasks), now)


def said(*positions: int, whole: bool = True, source_task: int = 0, version: int = 1) -> LaneProgress:
    """A lane's report on one source task, with its first partitions at these positions."""
    partitions = tuple(
        PartitionProgress(topic="t", partition=at, remote_topic="A.t", state=TaskState.RUNNING, position=position)
        for at, position in enumerate(positions)
    )
    word = SourceTaskProgress(
        flow=FLOW, source_task=source_task, epoch=1, state=TaskState.RUNNING, partitions=partitions, whole=whole
    )
    return LaneProgress(version=version, pid=1, source_tasks=(word,))


def carried_out(
    board: LaneBoard, lane: int, session: str, *numbers: int, drained: bool = False, now: float = 1.0
) -> None:
    """The lane has applied its newest orders, and runs these source tasks."""
    source_tasks = tuple(
        SourceTaskProgress(flow=FLOW, source_task=number, epoch=1, state=TaskState.RUNNING, drained=drained)
        for number in numbers
    )
    board.lane_report(
        lane, session, LaneProgress(version=board.lane_orders(lane).version, pid=1, source_tasks=source_tasks), now
    )
