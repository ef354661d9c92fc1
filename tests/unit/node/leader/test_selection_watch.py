"""What a leader knows of topics that left the selection: from its predecessor's lists, and from stored offsets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.plugins import PluginError
from mm2.core.policies import DefaultReplicationPolicy
from mm2.core.topics.deleted_topics import Deletion, due_deletions
from mm2.core.topics.selection import Selection
from mm2.kafka.errors import RequestTimedOut
from mm2.kafka.logs.transaction_coordinator import Fenced
from mm2.node.leader.remote_topics import Discovery
from mm2.node.leader.selection_watch import DeletionWatch, SelectionWatch
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.status.progress import ReplicatedTopic
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import unconnected_cluster
from tests.unit.config import files


class Offsets(StoredSourceOffsets):
    """Stored offsets of these topics, without a cluster."""

    def __init__(self, *topics: str) -> None:
        super().__init__(unconnected_cluster(), "offsets", Flow("A", "B"), source_alias="A", partitions=1)
        self.topics = topics
        self.is_readable = True

    async def refresh(self, *, timeout_ms: int = 0) -> None:
        if not self.is_readable:
            raise RequestTimedOut("no answer")

    @property
    def stored(self) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(topic, 0) for topic in self.topics)


def found(*selected: str, present: Iterable[str]) -> Discovery:
    topics = tuple(ReplicatedTopic(topic=name, remote_topic=f"A.{name}", partitions=1) for name in selected)
    return Discovery(topics=topics, partitions=(), present=frozenset(present))


def published(*topics: str) -> list[SourceTaskRecord]:
    partitions = frozenset(TopicPartition(topic, 0) for topic in topics)
    return [SourceTaskRecord(source_task=0, epoch=1, version=1, partitions=partitions)]


def watch(directory: Path, text: str, offsets: Offsets | None, *lists: str) -> SelectionWatch:
    settings = files.flow(directory, text)
    return SelectionWatch(settings, settings.replication_filter, published=lambda: published(*lists), stored=offsets)


async def test_a_leader_with_another_file_lets_topics_drop_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its predecessor was killed. clicks left the selection earlier, and B.loop is no topic of this flow."""
    caplog.set_level(logging.INFO)
    offsets = Offsets("orders", "payments", "clicks", "deleted", "heartbeats", "B.loop")
    text = "topics = orders, users\nheartbeats.replication.enabled = false\n"
    narrow = watch(tmp_path, text, offsets, "orders", "payments")
    narrow.file_changed = True
    everything = ("orders", "payments", "clicks", "users", "heartbeats", "B.loop")
    assert narrow.left is None
    await narrow.take(found("orders", "users", present=everything))
    assert narrow.left == ("clicks", "payments")
    assert narrow.reason is not None
    assert narrow.reason.startswith("2 topics were replicated and are not selected any more")
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        "A->B: 1 topic entered the selection with a changed file, and will be copied to B: users",
        "A->B: 2 topics left the selection, and will not be copied any more although they exist on A: clicks, payments",
    ]
    await narrow.take(found("orders", "users", present=("orders", "users", "clicks")))
    assert narrow.left == ("clicks",), "payments was deleted"
    assert len(caplog.records) == 2


async def test_unknown_until_the_stored_offsets_are_read(tmp_path: Path) -> None:
    offsets = Offsets("orders", "payments")
    offsets.is_readable = False
    narrow = watch(tmp_path, "topics = orders\n", offsets)
    await narrow.take(found("orders", present=("orders", "payments")))
    assert (narrow.left, narrow.reason) == (None, None)
    offsets.is_readable = True
    await narrow.take(found("orders", present=("orders", "payments")))
    assert narrow.left == ("payments",)


@pytest.mark.parametrize(
    "text",
    [
        "topics = orders\ntopics.exclude = pay.*\n",
        f"topic.filter.class = {__name__}:OnlyOrders\ntopics.exclude = pay.*\n",
    ],
)
async def test_an_excluded_topic_has_left_on_purpose(tmp_path: Path, text: str) -> None:
    offsets = Offsets("orders", "payments", "clicks")
    narrow = watch(tmp_path, text, offsets)
    await narrow.take(found("orders", present=("orders", "payments", "clicks")))
    assert narrow.left == ("clicks",)


async def test_a_reload_that_narrows_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    wide = watch(tmp_path, "topics = .*\n", Offsets())
    await wide.take(found("orders", "payments", present=("orders", "payments")))
    assert wide.left == ()
    assert [record.getMessage() for record in caplog.records] == ["A->B: 2 topics selected: orders, payments"]
    settings = files.flow(tmp_path, "topics = orders\n")
    offsets = Offsets("orders", "payments")
    narrow = SelectionWatch(settings, settings.replication_filter, published=list, stored=offsets, previous=wide)
    assert narrow.left is None, "the new file was not applied yet"
    await narrow.take(found("orders", present=("orders", "payments")))
    assert narrow.left == ("payments",)
    assert caplog.records[-1].levelno == logging.WARNING


class OnlyOrders:
    def configure(self, properties: object) -> None:
        pass

    def should_replicate_topic(self, topic: str) -> bool:
        return topic == "orders"


class BrokenPolicy(DefaultReplicationPolicy):
    def is_heartbeats_topic(self, topic: str) -> bool:
        raise PluginError("no answer")


def deletions(directory: Path, written: list[Sequence[tuple[bytes, bytes | None]]]) -> DeletionWatch:
    """Clusters that cannot be asked, and the topic ``gone`` that is stored as deleted."""
    settings, cluster = files.flow(directory), unconnected_cluster()
    configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    for key, value in due_deletions({}, ["gone"], before=Selection(), now_ms=5):
        configs.deleted_topics.take(key, value)

    async def put(records: Sequence[tuple[bytes, bytes | None]]) -> None:
        written.append(records)
        raise Fenced("another node leads") if len(written) > 1 else RequestTimedOut("no answer")

    return DeletionWatch(settings, cluster, cluster, configs, put)


async def test_deletions_are_unknown_until_a_round_has_asked_and_stored(tmp_path: Path) -> None:
    written: list[Sequence[tuple[bytes, bytes | None]]] = []
    watch = deletions(tmp_path, written)
    stored = {"gone": Deletion(noticed_ms=5, since_ms=None)}
    assert watch.deletions is None
    back = found("orders", "gone", present=("orders", "gone"))
    await watch.take(Selection(), (), back)
    assert (watch.deletions, written) == (None, [[(b"mm2-deleted-topic-gone", None)]]), "it cannot be stored"
    with pytest.raises(Fenced):
        await watch.take(Selection(), (), back)
    assert watch.deletions is None
    assert watch._configs.deleted_topics.deletions == stored, "they change by what is read"


async def test_a_source_that_cannot_be_asked_has_lost_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    written: list[Sequence[tuple[bytes, bytes | None]]] = []
    watch = deletions(tmp_path, written)
    await watch._source.close()
    await watch.take(Selection(), (), found("orders", present=("orders",)))
    assert (watch.deletions, written) == (None, [])
    assert "cannot tell which topics were deleted on the source" in caplog.text


async def test_a_policy_or_a_pattern_that_fails_ends_nothing(tmp_path: Path) -> None:
    offsets = Offsets("payments")
    broken = watch(tmp_path, f"topics = orders\nreplication.policy.class = {__name__}:BrokenPolicy\n", offsets)
    await broken.take(found("orders", present=("orders", "payments")))
    assert broken.left == ()
