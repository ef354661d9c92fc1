"""A look at what Java MirrorMaker left in ``mm2-configs.<source>.internal``, once, before a flow is taken over."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from mm2.config.predecessor import differences
from mm2.config.settings import FlowSettings
from mm2.core.client_settings import IsolationLevel
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.errors import ClusterError
from mm2.kafka.stored_records import StoredRecord

log = logging.getLogger(__name__)

_SOURCE_CONNECTOR = b"connector-MirrorSourceConnector"


async def tell_differences(settings: FlowSettings, target: Cluster) -> None:
    """Log in one line what this file says differently from the configuration Java last stored for the flow.

    Nothing depends on it: a topic that cannot be read, or a record that is not Java's, is passed over with a word.
    """
    topic = settings.storage.configs.name
    newest: StoredRecord | None = None
    try:
        reader = CompactedLog(target, topic, isolation=IsolationLevel.READ_COMMITTED, purpose="configs")
        async for record in reader.read_to_end(timeout_ms=settings.source.admin_timeout_ms):
            if record.key == _SOURCE_CONNECTOR:
                newest = record
    except ClusterError as error:
        log.info("%s: what Java MirrorMaker ran with is not known: %s", settings.flow, error)
        return
    if newest is None or newest.value is None:
        return
    java = _properties(newest.value)
    if java is None:
        log.warning("%s: record %d of %s is not a configuration that Java wrote", settings.flow, newest.offset, topic)
        return
    found = differences(settings, java)
    if found:
        when = datetime.fromtimestamp(newest.timestamp / 1000, UTC)
        log.warning(
            "%s: this file differs from the one Java MirrorMaker ran the flow with (stored %s UTC): %s",
            settings.flow,
            f"{when:%Y-%m-%d %H:%M}",
            "; ".join(map(str, found)),
        )


def _properties(value: bytes) -> dict[str, str] | None:
    try:
        properties = json.loads(value)["properties"]
        return {str(name): str(text) for name, text in properties.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
