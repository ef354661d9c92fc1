"""The kinds of tasks that a node can run. A kind is one module with a `TaskRunner` and one line of this table."""

from __future__ import annotations

import functools
import pkgutil

from mm2.config.settings import FlowSettings
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.node.flow.task_runner import TaskRunner
from mm2.node.store.config_store import ConfigStore

TASK_RUNNERS: dict[str, str] = {
    TaskKind.SOURCE: "mm2.node.source.source_task_runner:SourceTaskRunner",
    TaskKind.CHECKPOINT: "mm2.node.checkpoint.checkpoint_task_runner:CheckpointTaskRunner",
    TaskKind.HEARTBEAT: "mm2.node.heartbeat.heartbeat_task_runner:HeartbeatTaskRunner",
}
"""From the kind in task IDs to the import string of its class."""


def task_runners() -> dict[str, type[TaskRunner]]:
    """Return the class of each kind, source tasks first."""
    return {kind: _resolve(name) for kind, name in TASK_RUNNERS.items()}


@functools.cache
def _resolve(name: str) -> type[TaskRunner]:
    found: type[TaskRunner] = pkgutil.resolve_name(name)
    return found


def enabled_kinds(settings: FlowSettings) -> set[str]:
    """Return the kinds of tasks that are enabled for a flow."""
    return {kind for kind, runner in task_runners().items() if runner.is_enabled(settings)}


def flow_tasks(settings: FlowSettings, configs: ConfigStore) -> dict[TaskId, int]:
    """Return all tasks of a flow according to the leader's published lists, with their weights."""
    return {
        TaskId(kind, number): weight
        for kind, runner in task_runners().items()
        if runner.is_enabled(settings)
        for number, weight in runner.weights(settings, configs).items()
    }
