"""The leader's check, once and before anything is copied, that source offsets are stored under the flow's alias."""

from __future__ import annotations

import logging

from mm2.config.settings import FlowSettings
from mm2.core.naming import internal_topics
from mm2.core.offsets.connect_offsets import alias_change
from mm2.kafka.errors import ClusterError
from mm2.node.leader.discovery import DecideStarts
from mm2.node.leader.remote_topics import Discovery
from mm2.node.source.source_offsets import StoredSourceOffsets

log = logging.getLogger(__name__)


class AliasCheck:
    """Warns about partitions that do not continue because of source.cluster.alias.

    (A) The check precedes ``then``: under latest, a start is stored for each partition without a stored offset, after
        which it is unknown which partitions had none.

    ``warning`` is shown until the node leads again or the flow restarts.
    """

    def __init__(self, settings: FlowSettings, stored: StoredSourceOffsets, *, then: DecideStarts) -> None:
        """``then`` decides where partitions start."""
        self._settings = settings
        self._stored = stored
        self._then = then
        self._is_due = True
        self.warning: str | None = None

    def checked_by(self, previous: AliasCheck) -> None:
        """Take the result of an earlier check, under settings that differ in nothing that matters here."""
        self._is_due, self.warning = previous._is_due, previous.warning

    async def decide(self, discovery: Discovery) -> Discovery:
        """Check, and decide where partitions start (`DecideStarts`)."""
        if self._is_due:
            await self._check(discovery)
        return await self._then(discovery)

    async def _check(self, discovery: Discovery) -> None:
        settings, flow = self._settings, self._settings.flow
        try:
            await self._stored.refresh()
        except ClusterError as error:
            log.info("%s: cannot check under which alias source offsets are stored: %s", flow, error)
            return
        self._is_due = False
        others = self._stored.under_other_aliases
        if settings.storage.offsets.name != internal_topics.source_offsets(flow).name:  # others may use it
            others = {alias: found for alias, found in others.items() if alias == flow.source}
        self.warning = alias_change(
            flow, settings.aliases.source, discovery.partitions, stored=self._stored.stored, elsewhere=others
        )
        if self.warning is not None:
            log.warning("%s: %s", flow, self.warning)
