"""The configuration that a Java MirrorMaker last used for a flow, from ``mm2-configs.<source>.internal``.

Java's leader writes the configurations of its connectors there (KafkaConfigBackingStore). This program leaves them as
they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.config.settings import FlowSettings
from mm2.core.settings.client import IsolationLevel
from mm2.core.wire.json_bytes import decode_json
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.stored_records import StoredRecord

_SOURCE_CONNECTOR = b"connector-MirrorSourceConnector"


class NotOfJavaError(Exception):
    """The record was not written by Java."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaConfig:
    """Properties of the source connector, which include those of the other connectors, and when they were stored."""

    properties: Mapping[str, str] = field(repr=False)
    stored_ms: int


async def read_java_config(settings: FlowSettings, target: Cluster, *, timeout_ms: int) -> JavaConfig | None:
    """Return the configuration; None if there is none. Raises ClusterError, and NotOfJavaError with the reason."""
    topic = settings.storage.configs.name
    newest: StoredRecord | None = None
    reader = CompactedLog(target, topic, isolation=IsolationLevel.READ_COMMITTED, purpose="configs")
    async for record in reader.read_to_end(timeout_ms=timeout_ms):
        if record.key == _SOURCE_CONNECTOR:
            newest = record
    if newest is None or newest.value is None:
        return None
    try:
        properties = decode_json(newest.value, "connector configuration")["properties"]
        texts = {str(name): str(text) for name, text in properties.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotOfJavaError(f"record {newest.offset} of {topic}: not a configuration written by Java") from error
    return JavaConfig(properties=texts, stored_ms=newest.timestamp)
