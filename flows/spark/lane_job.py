"""The Spark job of one lane."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable

from pyspark import SparkContext
from pyspark.errors import PySparkException

from flows.spark.deaths import lane_death
from flows.spark.lane_task import LaneTask
from flows.sql.refusal import QueryRefusedError, is_hidden
from flows.sql.session import SqlSession
from mm2.core.lanes.engine_orders import LaneEnd, LaneStart
from mm2.core.lanes.lease import LaneQuery, LeaseEndpoint
from mm2.core.settings.row_query import RowQuery

LONGEST_TEXT = 1_000
"""Characters of a query that Spark's UI shows as the title of a job."""

_NUMBERS = itertools.count(1)

_ERROR_NAME = re.compile(r"[\w.$]+(?:Error|Exception)")


class LaneJob(threading.Thread):
    """One run of one lane: a Spark job of one task, submitted from its own thread under its own job group.

    ``description`` of its order is the name of its stage in Spark's UI, and begins the title of its job.
    ``has_ended``: its `end` is known. ``lost_java``: it has ended because the JVM does not answer.
    """

    def __init__(
        self,
        spark: SparkContext,
        sql: SqlSession,
        place: LeaseEndpoint,
        start: LaneStart,
        on_end: Callable[[LaneJob], None] = lambda _: None,
        *,
        memory: str,
    ) -> None:
        """``on_end`` is called in the thread of the job when it has ended. ``memory``: the limit of the JVM in which
        the lane runs, such as ``spark.driver.memory = 1g``."""
        super().__init__(name=f"lane-{start.lane}", daemon=True)
        self.start_order = start
        self._spark = spark
        self._sql = sql
        self._place = place
        self._memory = memory
        self._group = f"mm2-lane-{start.lane}-{next(_NUMBERS)}"  # shown in Spark's UI
        self._error: str | None = None
        self._refused = False
        self._on_end = on_end
        self.has_ended = False
        self.lost_java = False

    def run(self) -> None:
        """Run the job to its end."""
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 the JVM has ended: also the texts of Spark's exceptions come from it
            self._error, self.lost_java = type(error).__name__, True
        finally:
            self.has_ended = True
            self._on_end(self)

    def _run(self) -> None:
        self._spark.setJobGroup(self._group, job_title(self.start_order), interruptOnCancel=True)
        self._spark.setLocalProperty("callSite.short", self.start_order.description)
        try:
            if self.start_order.query is None:
                self._run_plain()
            else:
                self._run_sql(self.start_order.query)
        except QueryRefusedError as error:
            self._error, self._refused = str(error), True
        except PySparkException as error:
            self._error = self._shown(str(error))
        except Exception as error:  # noqa: BLE001 py4j raises many kinds of Exception when the JVM has ended
            self._error, self.lost_java = self._shown(f"{type(error).__name__}: {error}"), True

    def _shown(self, text: str) -> str:
        query = self.start_order.query
        death = lane_death(text, self._memory)
        if death is not None:
            return death
        return error_name(text) if query is not None and is_hidden(query.action) else last_line(text)

    def _run_plain(self) -> None:
        task = LaneTask(lane=self.start_order.lane, place=self._place, token=self.start_order.token)
        # Not rdd.collect(), which names the stage after the line that calls it.
        self._spark.runJob(self._spark.parallelize([None], numSlices=1), task)

    def _run_sql(self, query: LaneQuery) -> None:
        session = self._sql.open()
        from flows.sql.lane_query import evaluate, result_of  # noqa: PLC0415 imports pyarrow, which other lanes do not need

        result = result_of(session, query, lane=self.start_order.lane, token=self.start_order.token, place=self._place)
        evaluate(result, query)

    @property
    def end(self) -> LaneEnd:
        """How it has ended."""
        start = self.start_order
        return LaneEnd(lane=start.lane, token=start.token, error=self._error, refused=self._refused)

    def cancel(self) -> None:
        """Ask Spark to cancel the job."""
        self._spark.cancelJobGroup(self._group)

    @property
    def unplaced(self) -> bool:
        """Whether no executor runs its task."""
        status = self._spark.statusTracker()
        jobs = [status.getJobInfo(job) for job in status.getJobIdsForGroup(self._group)]
        stages = [status.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return not any(stage is not None and stage.numActiveTasks for stage in stages)


def job_title(start: LaneStart) -> str:
    """Return the title of a lane's job in Spark's UI: its description and its query.

    Spark cannot change it while the job runs, so it contains only what is fixed.
    """
    if start.query is None:
        return start.description
    action = start.query.action
    text = action.text if isinstance(action, RowQuery) else str(action)
    shown = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
    return f"{start.description}: query {start.query.name}: {shown}"


def last_line(text: str) -> str:
    """Return the last line of a Spark error that names an exception, truncated to 500 characters.

    py4j begins the line of Java's exception with a colon, which is left out.
    Lines of Java's stack trace do not count: they name methods such as handlePythonException. The cause of a process
    that was killed is only that Java has read the end of a stream (EOFException), so what precedes it is returned.
    """
    stripped = (line.strip().removeprefix(": ") for line in text.splitlines())
    lines = [line for line in stripped if line and not line.startswith("at ")]
    named = [line for line in lines if "Error" in line or "Exception" in line]
    telling = [line for line in named if "EOFException" not in line]
    return (telling or named or lines or ["unknown error"])[-1][:500]


def error_name(text: str) -> str:
    """Return the name of the exception that `last_line` names, without its message, which can quote the query."""
    found = _ERROR_NAME.match(last_line(text))
    return "unknown error" if found is None else found[0]
