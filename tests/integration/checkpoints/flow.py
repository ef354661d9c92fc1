"""A flow without source tasks: only the checkpoint task, with offset syncs written by the test."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mm2.config.load import load
from mm2.config.settings import FlowSettings
from mm2.node.checkpoint.checkpoint_log import CheckpointMetrics
from mm2.node.checkpoint.checkpoint_task import CheckpointTask
from mm2.node.status.status_model import GroupPartitionStatus, GroupStatus
from tests.lab.checkpoints import Checkpoint, read_checkpoints
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import Record, read_topic
from tests.lab.records import Outgoing, write
from tests.lab.settings import ONE_COPY
from tests.lab.waiting import until

SOON = 30.0  # seconds until a change is detected: checked every second, but the cores are shared
OFFSETS_PARTITIONS = 25
COMPACTED = {"cleanup.policy": "compact"}


@dataclass(slots=True)
class CheckpointFlow:
    """A flow with unique aliases; its groups and topics start with the source alias."""

    source: KafkaCluster
    target: KafkaCluster
    directory: Path
    lines: str = ""
    bootstrap: str | None = None  # address of the source in the file, if it differs
    a: str = field(default_factory=lambda: unique_name("A"))
    b: str = field(default_factory=lambda: unique_name("B"))
    checkpoint_metrics: CheckpointMetrics = field(default_factory=CheckpointMetrics)

    def __post_init__(self) -> None:
        self.target.create_topic(self.offsets_topic, OFFSETS_PARTITIONS, config=COMPACTED)
        self.source.create_topic(self.syncs_topic, config=COMPACTED)

    @property
    def settings(self) -> FlowSettings:
        keys = {
            "clusters": f"{self.a}, {self.b}",
            f"{self.a}.bootstrap.servers": self.bootstrap or self.source.bootstrap,
            f"{self.b}.bootstrap.servers": self.target.bootstrap,
            f"{self.a}->{self.b}.enabled": "true",
            "topics": f"{self.a}-.*",
            "groups": f"{self.a}-.*",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "sync.group.offsets.interval.seconds": "1",
            **ONE_COPY,
        }
        path = self.directory / "mm2.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()) + self.lines, "iso-8859-1")
        found = load(path)
        assert found.settings is not None, "\n".join(map(str, found.problems))
        return found.settings.flows[0]

    @property
    def syncs_topic(self) -> str:
        return f"mm2-offset-syncs.{self.b}.internal"

    @property
    def checkpoints_topic(self) -> str:
        return f"{self.a}.checkpoints.internal"

    @property
    def offsets_topic(self) -> str:
        return f"mm2-offsets.{self.a}.internal"

    def named(self, stem: str) -> str:
        """Return a topic or group name that belongs to this flow."""
        return f"{self.a}-{stem}"

    def topic(self, stem: str, partitions: int = 1, *, records: int = 0) -> str:
        """Create a source topic, and its remote topic with ``records`` records in each partition."""
        name = self.source.create_topic(self.named(stem), partitions)
        self.target.create_topic(f"{self.a}.{name}", partitions)
        filled = [Outgoing(value=b"x", partition=number) for number in range(partitions) for _ in range(records)]
        write(self.target.bootstrap, f"{self.a}.{name}", filled)
        return name

    def sync(self, topic: str, *pairs: tuple[int, int], partition: int = 0) -> None:
        """Write offset syncs: pairs of source offset and target offset."""
        name = topic.encode()
        key = struct.pack(f">h{len(name)}si", len(name), name, partition)
        records = [Outgoing(key=key, value=struct.pack(">qq", *pair), partition=0) for pair in pairs]
        write(self.source.bootstrap, self.syncs_topic, records)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CheckpointTask]:
        """Run the task during the block."""
        task = CheckpointTask(
            self.settings,
            offsets_partitions=OFFSETS_PARTITIONS,
            node_id="node-1",
            checkpoint_metrics=self.checkpoint_metrics,
        )
        run = asyncio.create_task(task.run(), name="checkpoint task")
        try:
            yield task
        finally:
            run.cancel()
            await asyncio.wait([run])
            if not run.cancelled():
                run.result()

    async def records(self, topic: str) -> list[Record]:
        """Return the records of a topic on the target, partition by partition."""
        found = await asyncio.to_thread(read_topic, self.target.bootstrap, topic)
        return [record for partition in sorted(found) for record in found[partition]]

    async def checkpoints(self, group: str) -> list[Checkpoint]:
        """Return the group's checkpoints in the order they were written."""
        return await asyncio.to_thread(read_checkpoints, self.target, self.checkpoints_topic, group)

    async def checkpoint(self, group: str, upstream: int) -> Checkpoint:
        """Wait for the group's first checkpoint of this source offset and return it."""

        async def found() -> bool:
            checkpoints[:] = [one for one in await self.checkpoints(group) if one.upstream == upstream]
            return bool(checkpoints)

        checkpoints: list[Checkpoint] = []
        await until(found, SOON, f"group {group} has a checkpoint for offset {upstream}")
        return checkpoints[0]


def shown(task: CheckpointTask, group: str) -> GroupStatus | None:
    """Return the group as in REST responses."""
    return next((one for one in task.groups() if one.group == group), None)


def shown_partition(task: CheckpointTask, group: str, topic: str, partition: int = 0) -> GroupPartitionStatus | None:
    """Return a partition of the group as in REST responses."""
    status = shown(task, group)
    rows = status.partitions if status is not None else ()
    return next((one for one in rows if (one.topic, one.partition) == (topic, partition)), None)
