"""Comparison with the configuration that Java MirrorMaker stored in ``mm2-configs.<source>.internal``."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from mm2.config.reload.java_config_diff import differences
from mm2.config.settings import FlowSettings
from mm2.core.settings.client import IsolationLevel
from mm2.core.wire.json_bytes import decode_json
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.stored_records import StoredRecord

log = logging.getLogger(__name__)

_SOURCE_CONNECTOR = b"connector-MirrorSourceConnector"


async def log_differences(settings: FlowSettings, target: Cluster) -> None:
    """Log the differences between this file and the configuration that Java last stored for the flow, in one line.

    For information only: a topic that cannot be read, or a record that was not written by Java, is logged and ignored.
    """
    topic = settings.storage.configs.name
    newest: StoredRecord | None = None
    try:
        reader = CompactedLog(target, topic, isolation=IsolationLevel.READ_COMMITTED, purpose="configs")
        async for record in reader.read_to_end(timeout_ms=settings.source.admin_timeout_ms):
            if record.key == _SOURCE_CONNECTOR:
                newest = record
    except ClusterError as error:
        log.info("%s: cannot read the configuration stored by Java MirrorMaker: %s", settings.flow, error)
        return
    if newest is None or newest.value is None:
        return
    java = _properties(newest.value)
    if java is None:
        log.warning(
            "%s: ignoring record %d of %s: not a configuration written by Java", settings.flow, newest.offset, topic
        )
        return
    found = differences(settings, java)
    if found:
        when = datetime.fromtimestamp(newest.timestamp / 1000, UTC)
        log.warning(
            "%s: this file differs from the configuration that Java MirrorMaker used for the flow (stored %s UTC): %s",
            settings.flow,
            f"{when:%Y-%m-%d %H:%M}",
            "; ".join(map(str, found)),
        )


def _properties(value: bytes) -> dict[str, str] | None:
    try:
        properties = decode_json(value, "connector configuration")["properties"]
        return {str(name): str(text) for name, text in properties.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
