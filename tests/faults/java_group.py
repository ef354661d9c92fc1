"""Several nodes of Java's MirrorMaker 2 that share flow A->B: what their workers report in the status topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.faults.node_group import PARTITIONS, PROPERTIES, STATUSES
from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.java_mm2 import JavaMirrorMaker
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

SHARED = 240.0  # seconds until all workers have tasks, on shared cores
STATUS = "status-task-MirrorSourceConnector-"  # KafkaStatusBackingStore.TASK_STATUS_PREFIX


class JavaGroup:
    """Workers by name, each with a REST port of its own. A context manager that starts them and ends them.

    It runs with Java's defaults, so that `scheduled.rebalance.max.delay.ms` is five minutes.
    """

    def __init__(
        self,
        source: KafkaCluster,
        target: KafkaCluster,
        names: tuple[str, ...] = ("one", "two"),
        *,
        properties: Mapping[str, str] | None = None,
        properties_of: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """``properties``: additional properties of all workers; ``properties_of``: of single workers, by name."""
        self.source = source
        self.target = target
        shared = one_flow(source, target, topics="t-.*") | PROPERTIES | dict(properties or {})
        self._tasks_max = min(int(shared["tasks.max"]), PARTITIONS)
        self._ports = {name: reserve_port() for name in names}
        self.by_name = {
            name: JavaMirrorMaker(
                shared | {"listeners": f"http://{HOST}:{port}"} | dict((properties_of or {}).get(name, {})),
                clusters=("B",),
                name=f"java-{name}",
            )
            for name, port in self._ports.items()
        }
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        for node in self.by_name.values():
            self._ends.enter_context(node)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()
        for port in self._ports.values():
            release_port(port)

    def wait_shared(self, timeout: float = SHARED) -> None:
        """Wait until every worker runs source tasks and every source task runs. Raises GaveUp."""
        wanted = {f"{HOST}:{port}" for port in self._ports.values()}

        def shared() -> bool:
            tasks = self.source_tasks()
            running = {worker for state, worker in tasks.values() if state == "RUNNING"}
            return len(tasks) == self._tasks_max and running == wanted and not self.failed_tasks()

        wait_until(shared, timeout, f"{', '.join(self.by_name)} share the flow")

    def source_tasks(self) -> dict[str, tuple[str, str]]:
        """Newest reported state and worker (host:port) of each source task. A killed worker's reports stay."""
        found: dict[str, tuple[str, str]] = {}
        for records in read_topic(self.target.bootstrap, STATUSES).values():
            for record in records:
                task = (record.key or b"").decode()
                if task.startswith(STATUS):
                    report = json.loads(record.value or b"{}")  # a deleted task has a tombstone
                    found[task] = report.get("state", ""), report.get("worker_id", "").partition("/")[0]
        return {task: report for task, report in found.items() if report[0] not in ("", "DESTROYED")}

    def failed_tasks(self) -> list[str]:
        """Source tasks that have failed. Connect does not restart them."""
        return [task for task, (state, _) in self.source_tasks().items() if state == "FAILED"]

    def restart(self) -> None:
        """Restart all workers, as an operator does after a task has failed."""
        for node in self.by_name.values():
            if node.process.running:
                node.kill()
        for node in self.by_name.values():
            node.start()
