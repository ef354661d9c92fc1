"""What a flow's leader keeps in ``mm2-configs.<source>.internal`` for all its nodes: lists of slots and groups, session
key, pauses, what its file says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from mm2.config.settings import FlowSettings
from mm2.core import command_records, flow_terms, group_lists, pauses, session_keys, slot_records
from mm2.core.client_settings import IsolationLevel
from mm2.core.commands import Refresh, RestartTask
from mm2.core.flow_terms import FlowTerms
from mm2.core.formats import FormatError
from mm2.core.group_lists import GroupListBook
from mm2.core.pauses import NO_PAUSES, Pauses
from mm2.core.session_keys import SessionKey
from mm2.core.slot_records import SlotBook
from mm2.kafka.cluster import Cluster
from mm2.kafka.compacted_log import CompactedLog
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.kafka.stored_records import StoredRecord
from mm2.node.skipped_records import SkippedRecords

STEP_RECORDS = 50
"""Records folded before the event loop gets its turn: a list of slots may be half a megabyte."""


class ConfigTopic:
    """The fold of the topic; Java's own records are passed over.

    (A) What an aborted transaction wrote does not count: its leader had been replaced.
    """

    def __init__(
        self,
        settings: FlowSettings,
        target: Cluster,
        *,
        on_change: Callable[[], None],
        on_command: Callable[[Refresh | RestartTask], None],
    ) -> None:
        """``on_change`` is called after something of ours changed, ``on_command`` with commands that come while the
        topic is followed."""
        self.topic = settings.storage.configs.name
        self.slots = SlotBook()
        self.groups = GroupListBook()
        self.session_key: SessionKey | None = None
        self.pauses: Pauses = NO_PAUSES
        self.terms: FlowTerms | None = None
        self.skipped = SkippedRecords(settings.flow, self.topic)
        self._on_change = on_change
        self._on_command = on_command
        self._following = False
        self._commanded = -1
        self._log = CompactedLog(target, self.topic, isolation=IsolationLevel.READ_COMMITTED, purpose="configs")

    async def read_to_end(self) -> None:
        """Take in what the topic holds now. Raises ClusterError."""
        await self._fold(self._log.read_to_end())

    async def follow(self) -> None:
        """Take in what comes, until cancelled. Raises ClusterError for what waiting does not heal."""
        self._following = True
        await self._fold(self._log.follow())

    async def catch_up(self, *, timeout_ms: int = API_TIMEOUT_MS) -> None:
        """Wait until all that is in the topic now was taken in, while `follow` runs. Raises ClusterError."""
        await self._log.catch_up(timeout_ms=timeout_ms)

    async def _fold(self, records: AsyncIterator[StoredRecord]) -> None:
        taken = 0
        async for record in records:
            try:
                if self._take(record):
                    self._on_change()
            except FormatError as error:
                self.skipped.skip(record, error)
            taken += 1
            if taken % STEP_RECORDS == 0:
                await asyncio.sleep(0)

    def _take(self, record: StoredRecord) -> bool:
        """Whether something is other than before."""
        if slot_records.is_slot_key(record.key):
            return self.slots.take(slot_records.decode_slot(record.key, record.value))
        if group_lists.is_groups_key(record.key):
            return self.groups.take(group_lists.decode_groups(record.key, record.value))
        if record.key == session_keys.SESSION_KEY and record.value is not None:
            before, self.session_key = self.session_key, session_keys.decode_session_key(record.value)
            return self.session_key != before
        if record.key == pauses.KEY:
            paused, self.pauses = self.pauses, pauses.decode_pauses(record.value)
            return self.pauses != paused
        if record.key == flow_terms.KEY:
            said, self.terms = self.terms, flow_terms.decode_terms(record.value)
            return self.terms != said
        if record.key == command_records.KEY:
            command = command_records.decode_command(record.value)
            if self._following and record.offset > self._commanded:  # the topic may be read again from its beginning
                self._on_command(command)
            self._commanded = max(self._commanded, record.offset)
        return False
