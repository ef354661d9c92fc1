"""Messages between node and engine: the lanes to run, and the records whose errors to find.

As in `mm2.core.lanes.lease`, orders contain everything the engine should run, not changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mm2.core.lanes.lease import LaneQuery

EXIT_JVM_LOST = 3
"""The exit code of an engine whose JVM has ended. The last error that it logs says why (`flows.spark.deaths`)."""


MESSAGE_WITHIN_S = 5.0
"""How long to wait for Spark's message for a failed record. Evaluating the query takes less than a second; the record
is treated as failed with or without the message."""


class EngineRole(StrEnum):
    """Which lanes an engine of a node runs. The value is its name in messages.

    On a Spark cluster each lane has an executor, and ``MAIN`` runs all of them. In local mode the lanes of an engine
    share its JVM, so ``QUERIES`` runs SQL lanes and ``MAIN`` the others: what a query does to its JVM affects queries
    only.
    """

    MAIN = "the Spark engine"
    QUERIES = "the Spark engine for queries"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStart:
    """One lane the engine should run; a new ``token`` for the same lane requests a new run.

    ``description`` is its title in Spark's UI, such as ``A->B lane 0``. ``query``: the lane is a SQL lane, whose
    records pass through this query.
    """

    lane: int
    token: str = field(repr=False)
    description: str
    query: LaneQuery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRecord:
    """A record for which a query failed; Spark's message is wanted.

    ``batch`` is a record batch with only this record, in base64, with its source offset as base offset.
    """

    number: int
    query: LaneQuery
    topic: str
    partition: int
    batch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordError:
    """Spark's ``message`` for the `FailedRecord` with this ``number``; None: its query did not fail this time."""

    number: int
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOrders:
    """All lanes the engine should run, records whose errors it should find, and its log levels, by logger."""

    version: int
    lanes: tuple[LaneStart, ...] = ()
    failed_records: tuple[FailedRecord, ...] = ()
    log_levels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneEnd:
    """A lane's Spark job that ended: normally (``error`` None) or with the last line of its error.

    ``refused``: the lane's query cannot run, so that the lane must not be restarted with it.
    """

    lane: int
    token: str = field(repr=False)
    error: str | None
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport:
    """The engine's report to the node, sent with every call.

    On a Spark cluster, ``executors`` is the number of executors granted, and ``unplaced`` are the lanes whose tasks run
    on none of them. ``record_errors`` answer `EngineOrders.failed_records`. ``memory_bytes``: of its process and its
    JVM; None: unknown.
    """

    version: int
    pid: int
    jvm_pid: int | None
    spark_ui: str | None
    ended: tuple[LaneEnd, ...] = ()
    executors: int = 0
    unplaced: tuple[int, ...] = ()
    record_errors: tuple[RecordError, ...] = ()
    memory_bytes: int | None = None
