"""The dead-letter topic of a flow, created by the nodes that run its source tasks."""

from __future__ import annotations

import logging

from mm2.config.settings import FlowSettings
from mm2.core.lanes.lease import DeadLettersLease
from mm2.core.naming.internal_topics import DEAD_LETTER_CONFIGS, dead_letters
from mm2.kafka.admin.cluster_admin import ClusterAdmin
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.errors import ClusterError
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.node.common.current_error import CurrentError

log = logging.getLogger(__name__)

PATIENCE_MS = 2_000
"""Limit for creating the topic while a lane waits for its lease; the lane can copy without it."""


class DeadLetterTopic:
    """Creates the topic if errors.tolerance is all. ``error`` is why it cannot be used."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._source = settings.source
        self._target = target
        self._topic = dead_letters(settings.flow, name=settings.source.dead_letter_topic_name)
        self._patience_ms = API_TIMEOUT_MS
        self._is_there = False
        self._is_wanted = settings.source.errors_tolerance == "all"
        self.error = CurrentError(log, settings.flow)

    @property
    def lease(self) -> DeadLettersLease | None:
        """The topic as lanes use it; None: records that cannot be copied stop their partitions."""
        if not self._is_wanted:
            return None
        return DeadLettersLease(topic=self._topic.name, context_headers=self._source.dead_letter_context_headers)

    async def ensure(self) -> None:
        """Create the topic unless it exists. The first call may take longer, as no lane waits for it."""
        if not self._is_wanted or self._is_there:
            return
        patience_ms, self._patience_ms = self._patience_ms, PATIENCE_MS
        try:
            await ensure_internal_topic(
                self._target,
                self._topic,
                replication_factor=self._source.dead_letter_topic_replication_factor,
                settings=DEAD_LETTER_CONFIGS,
                timeout_ms=patience_ms,
            )
        except ClusterError as error:
            self.error.report(
                f"cannot create dead-letter topic {self._topic.name}: {error}; a record that cannot be copied stops"
                " its partition until the topic exists",
                error,
            )
        else:
            self._is_there = True
            self.error.clear()
