"""A custom admin (forwarding.admin.class) that records its calls before it executes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mm2.core.topics.acls import Acl
from mm2.core.topics.topic_configs import DeleteConfig, SetConfig
from mm2.kafka.admin.cluster_admin import ClusterAdmin, Refusals
from mm2.kafka.admin.topics import NewTopic
from mm2.kafka.errors import BrokerError
from mm2.kafka.retrying import API_TIMEOUT_MS

CLASS = f"{__name__}:RecordingAdmin"
RECORD_KEY = "recording.admin.file"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded calls, one JSON object per line."""

    file: Path

    def calls(self, cluster: str, method: str) -> list[str]:
        """Return the recorded calls of this method on a cluster, in order."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        asked = [json.loads(line) for line in lines]
        return [one for call in asked if (call["cluster"], call["method"]) == (cluster, method) for one in call["what"]]


class RecordingAdmin(ClusterAdmin):
    def configure(self, properties: Mapping[str, str]) -> None:
        self.file = Path(properties[RECORD_KEY])

    async def create_topics(self, topics: Sequence[NewTopic], *, timeout_ms: int = API_TIMEOUT_MS) -> Refusals:
        self._record("create_topics", (topic.name for topic in topics))
        return await super().create_topics(topics, timeout_ms=timeout_ms)

    async def create_partitions(self, totals: Mapping[str, int], *, timeout_ms: int = API_TIMEOUT_MS) -> Refusals:
        self._record("create_partitions", (f"{name} {total}" for name, total in totals.items()))
        return await super().create_partitions(totals, timeout_ms=timeout_ms)

    async def alter_topic_configs(
        self, changes: Mapping[str, Sequence[SetConfig | DeleteConfig]], *, timeout_ms: int = API_TIMEOUT_MS
    ) -> Refusals:
        self._record("alter_topic_configs", (f"{name} {change}" for name, some in changes.items() for change in some))
        return await super().alter_topic_configs(changes, timeout_ms=timeout_ms)

    async def create_acls(
        self, acls: Sequence[Acl], *, timeout_ms: int = API_TIMEOUT_MS
    ) -> dict[Acl, BrokerError | None]:
        self._record("create_acls", map(str, acls))
        return await super().create_acls(acls, timeout_ms=timeout_ms)

    def _record(self, method: str, what: Iterable[str]) -> None:
        call = {"cluster": self.cluster.settings.alias, "method": method, "what": list(what)}
        with self.file.open("a") as file:
            file.write(json.dumps(call) + "\n")
