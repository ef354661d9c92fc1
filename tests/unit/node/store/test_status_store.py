"""The contents of the status topic: the last record of a key, except for the late release of a task."""

from __future__ import annotations

from mm2.core.naming.names import Flow
from mm2.core.wire.status_records import (
    ConnectState,
    Status,
    TopicUse,
    connector_key,
    encode_status,
    encode_topic_use,
    task_key,
    topic_key,
)
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.store.status_store import StatusStore

TASK = "MirrorSourceConnector-0"


class Written:
    """A store, to which records are passed with increasing offsets."""

    def __init__(self) -> None:
        self.book = StatusStore(Flow("A", "B"), "mm2-status.A.internal")
        self._offset = 0

    def take(self, key: bytes | None, value: bytes | None) -> None:
        record = StoredRecord(partition=0, offset=self._offset, key=key, value=value, timestamp=0)
        self._offset += 1
        self.book.take(record)

    def task(self, state: str, worker: str, generation: int) -> None:
        self.take(task_key(TASK), encode_status(status(state, worker, generation)))

    @property
    def counts(self) -> str | None:
        found = self.book.tasks().get(TASK)
        return None if found is None else f"{found.state} {found.worker_id} {found.generation}"


def status(state: str, worker: str, generation: int) -> Status:
    return Status(state=ConnectState(state), worker_id=worker, generation=generation)


def test_the_last_record_is_effective() -> None:
    written = Written()
    assert written.book.entry(task_key(TASK)) is None
    assert written.book.tasks() == {}
    written.task("RUNNING", "old", 4)
    written.task("FAILED", "new", 3)
    assert written.counts == "FAILED new 3"
    written.task("RUNNING", "old", 2)
    assert written.counts == "RUNNING old 2"
    written.take(task_key(TASK), None)
    assert written.counts is None
    entry = written.book.entry(task_key(TASK))
    assert entry is not None
    assert (entry.status, entry.newest, entry.offset) == (None, None, 3)
    written.task("UNASSIGNED", "old", 1)
    assert written.counts == "UNASSIGNED old 1"


def test_a_late_release_does_not_hide_the_new_owner() -> None:
    """Java: KafkaStatusBackingStore.readTaskStatus."""
    written = Written()
    written.task("RUNNING", "new", 4)
    for generation in (3, 4):
        written.task("UNASSIGNED", "old", generation)
        assert written.counts == "RUNNING new 4"
    entry = written.book.entry(task_key(TASK))
    assert entry is not None
    assert entry.newest == status("UNASSIGNED", "old", 4)
    assert entry.offset == 2
    written.task("UNASSIGNED", "old", 5)
    assert written.counts == "UNASSIGNED old 5"
    written.task("UNASSIGNED", "new", 4)
    assert written.counts == "UNASSIGNED new 4", "that is about RUNNING only"


def test_the_owner_can_release_in_the_same_generation() -> None:
    written = Written()
    written.task("RUNNING", "one", 4)
    written.task("UNASSIGNED", "one", 4)
    assert written.counts == "UNASSIGNED one 4"


def test_connectors_have_no_exception() -> None:
    written, key = Written(), connector_key("MirrorSourceConnector")
    for state, worker in (("RUNNING", "new"), ("UNASSIGNED", "old")):
        written.take(key, encode_status(status(state, worker, 4)))
    entry = written.book.entry(key)
    assert entry is not None
    assert entry.status == status("UNASSIGNED", "old", 4)
    assert written.book.tasks() == {}


def test_used_topics() -> None:
    written = Written()
    use = TopicUse(topic="A.orders", connector="MirrorSourceConnector", task=1, discovered_ms=7)
    key = topic_key("A.orders", "MirrorSourceConnector")
    written.take(key, encode_topic_use(use))
    assert written.book.uses("A.orders", "MirrorSourceConnector")
    assert not written.book.uses("A.orders", "MirrorCheckpointConnector")
    assert not written.book.uses("A.payments", "MirrorSourceConnector")
    written.take(key, None)
    assert not written.book.uses("A.orders", "MirrorSourceConnector")


def test_unknown_records_are_ignored() -> None:
    written = Written()
    written.task("RUNNING", "one", 4)
    written.take(None, b"1")
    written.take(b"mm2-something-of-ours", b"1")
    written.take(task_key(TASK), b"garbage")
    written.take(topic_key("A.orders", "MirrorSourceConnector"), b"garbage")
    written.take(topic_key("A.payments", "MirrorSourceConnector"), None)
    assert written.counts == "RUNNING one 4"
    assert not written.book.uses("A.orders", "MirrorSourceConnector")
