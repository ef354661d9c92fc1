"""The config topic, in which a flow's leader publishes the partitions of source tasks, the groups of checkpoint tasks,
the session key, pauses, skips, repeats, the transactional IDs in use, the histories of queries, the fingerprint of its
file, for which topics starts under ``latest`` are stored, the shares of what the flow may fetch, and which topics were
deleted on the source.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from mm2.config.settings import FlowSettings
from mm2.core.assignment import checkpoint_task_records, source_task_records
from mm2.core.assignment.checkpoint_task_records import GroupListBook
from mm2.core.assignment.source_task_records import SourceTaskBook
from mm2.core.coordination import (
    command_records,
    config_fingerprint,
    latest_starts,
    pauses,
    query_history_records,
    repeats,
    session_keys,
    skips,
    task_fencing,
)
from mm2.core.coordination.config_fingerprint import ConfigFingerprint
from mm2.core.coordination.latest_starts import TopicSelection
from mm2.core.coordination.pauses import NO_PAUSES, Pauses
from mm2.core.coordination.query_history_records import QueryHistories
from mm2.core.coordination.repeats import Repeats
from mm2.core.coordination.session_keys import SessionKey
from mm2.core.coordination.skips import NO_SKIPS, Skips
from mm2.core.coordination.task_fencing import NO_FENCING, TaskFencing
from mm2.core.lanes import fetch_shares
from mm2.core.lanes.fetch_shares import FetchShares
from mm2.core.masking import Renewed, hide
from mm2.core.settings.client import IsolationLevel
from mm2.core.topics.deleted_topics import DeletedTopics, is_deleted_topic_key
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.store.skipped_records import SkippedRecords

log = logging.getLogger(__name__)

STEP_RECORDS = 50
"""Records processed before yielding to the event loop; a source task list can be half a megabyte."""


class ConfigStore:
    """The current contents of the topic; of the records written by Java, only those of `task_fencing` are read.

    (A) Records of aborted transactions are ignored: their leader had been replaced.

    ``error`` is why the topic cannot be followed.
    """

    def __init__(
        self,
        settings: FlowSettings,
        target: Cluster,
        *,
        on_change: Callable[[], None],
        on_command: Callable[[bytes | None], None],
    ) -> None:
        """``on_change`` is called after a record has changed the contents.

        ``on_command`` is called with the value of each of the `command_records` that arrives during `follow`; it can
        raise FormatError.
        """
        self.topic = settings.storage.configs.name
        self.source_tasks = SourceTaskBook()
        self.groups = GroupListBook()
        self.query_histories = QueryHistories()
        self.repeats = Repeats()
        self.deleted_topics = DeletedTopics()
        self.session_key: SessionKey | None = None
        self.pauses: Pauses = NO_PAUSES
        self.skips: Skips = NO_SKIPS
        self.fencing: TaskFencing = NO_FENCING
        self.terms: ConfigFingerprint | None = None
        self.latest_starts: TopicSelection | None = None
        self.fetch_shares: FetchShares | None = None
        self.skipped = SkippedRecords(settings.flow, self.topic)
        self.error = CurrentError(log, settings.flow)
        self._on_change = on_change
        self._on_command = on_command
        self._following = False
        self._last_command = -1
        self._log = CompactedLog(target, self.topic, isolation=IsolationLevel.READ_COMMITTED, purpose="configs")

    async def read_to_end(self, *, timeout_ms: int = API_TIMEOUT_MS) -> None:
        """Apply all records that the topic contains now. Raises ClusterError, also without progress for that long."""
        await self.skipped.apply(self._log.read_to_end(timeout_ms=timeout_ms), self._take, step=STEP_RECORDS)

    async def follow(self) -> None:
        """Apply new records until cancelled.

        While the topic cannot be read, the node keeps what it has read, so that copying continues.
        """
        self._following = True

        async def attempt() -> None:
            self.error.hide()
            await self.skipped.apply(self._log.follow(), self._take, step=STEP_RECORDS)

        def text(error: BaseException) -> str:
            return f"cannot read {self.topic}: {error}; copying continues, but changes by the leader are not applied"

        await keep_trying(attempt, self.error, text)

    async def catch_up(self, *, timeout_ms: int = API_TIMEOUT_MS) -> None:
        """Wait until `follow` has applied all records that the topic contains now. Raises ClusterError."""
        await self._log.catch_up(timeout_ms=timeout_ms)

    @property
    def partition_counts(self) -> Mapping[int, int]:
        """The number of partitions of each source task."""
        return {number: len(record.partitions) for number, record in self.source_tasks.records.items()}

    def _take(self, record: StoredRecord) -> None:
        if is_deleted_topic_key(record.key):  # only shown
            self.deleted_topics.take(record.key, record.value)
        elif self._changes(record):
            self._on_change()

    def _changes(self, record: StoredRecord) -> bool:
        """Apply one record; return whether it changed the contents."""
        changes = self._takes(record)
        return self._changes_value(record) if changes is None else changes

    def _takes(self, record: StoredRecord) -> bool | None:
        """Apply a record of which there is one for each task or partition, as above; None: it is another one."""
        if source_task_records.is_source_task_key(record.key):
            return self.source_tasks.take(source_task_records.decode_source_task(record.key, record.value))
        if checkpoint_task_records.is_groups_key(record.key):
            return self.groups.take(checkpoint_task_records.decode_groups(record.key, record.value))
        if query_history_records.is_query_key(record.key):
            return self.query_histories.take(record.key, record.value)
        if repeats.is_repeat_key(record.key):
            return self.repeats.take(record.key, record.value)
        return None

    def _changes_value(self, record: StoredRecord) -> bool:
        """Apply a record of which there is one in the topic, as above."""
        before = self._values
        if record.key == session_keys.SESSION_KEY and record.value is not None:
            self.session_key = session_keys.decode_session_key(record.value)
            hide(self.session_key.secret, kind=Renewed.SESSION_KEY)
        elif record.key == pauses.KEY:
            self.pauses = pauses.decode_pauses(record.value, record.timestamp)
        elif record.key == skips.KEY:
            self.skips = skips.decode_skips(record.value)
        elif record.key in task_fencing.KEYS:
            self.fencing = self.fencing.take(record.key, record.value)
        elif record.key == config_fingerprint.KEY:
            self.terms = config_fingerprint.decode_fingerprint(record.value)
        elif record.key == latest_starts.KEY:
            self.latest_starts = latest_starts.decode_selection(record.value)
        elif record.key == fetch_shares.KEY:  # no change that is waited for: lanes ask once a second
            self.fetch_shares = fetch_shares.decode_shares(record.value)
        elif record.key == command_records.KEY:
            is_new = self._following and record.offset > self._last_command
            self._last_command = max(self._last_command, record.offset)  # the topic can be reread from the start
            if is_new:
                self._on_command(record.value)
        return self._values != before

    @property
    def _values(self) -> tuple[object, ...]:
        return self.session_key, self.pauses, self.skips, self.fencing, self.terms, self.latest_starts
