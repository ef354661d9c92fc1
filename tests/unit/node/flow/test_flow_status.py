"""The state of a flow on a leader, while tasks move between nodes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from mm2.core.assignment.task_placement import TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.query_uses import ReportedQueryUses
from mm2.core.lanes.losses import Loss
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import TopicPartition
from mm2.election.protocol import Joined, MemberInfo
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.flow.flow_session import FlowSession
from mm2.node.flow.flow_status import DuplicateNodeIds, FlowStatusBuilder
from mm2.node.flow.retained_state import RetainedFlowState
from mm2.node.flow.task_host import TaskHost
from mm2.node.identity import NodeIdentity
from mm2.node.leader.leader_term import LeaderTerm
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.status.status_builder import MOVES_WITHIN_S
from mm2.node.status.status_model import FlowStatus
from mm2.node.store.audit_store import AuditQueue, AuditStore
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import task_context, unconnected_cluster
from tests.unit.config import files

MOVES = "moves to node two as soon as node one has released it"
MEMBERS = {
    one: MemberInfo(node_id=node, url="", capacity=1, kinds=()) for one, node in (("m-1", "one"), ("m-2", "two"))
}


class Leader(LeaderTerm):
    """A leader that has read all topics."""

    @property
    def error(self) -> None:
        return None


UNREADABLE = StoredRecord(partition=0, offset=5, key=None, value=None, timestamp=-1, problem="no zstd")


def without_target(directory: Path, retained: RetainedFlowState, more: str = "") -> FlowStatus:
    """Return the status of a node that has lost its target: there is no session."""
    return FlowStatusBuilder(
        settings=files.flow(directory, more),
        identity=NodeIdentity(node_id="one", version="1"),
        retained=retained,
        session=None,
        own_state=TaskState.WAITING,
        error="cluster B is unreachable",
        connect_error=None,
        duplicate_node_ids=DuplicateNodeIds(),
    ).build()


def test_losses_keep_the_name_of_the_remote_topic_without_a_target(tmp_path: Path) -> None:
    """It is that under which the records were lost, whatever the file says now."""
    retained = RetainedFlowState()
    loss = Loss(topic="t", partition=2, first=5, until=9, reason="r", kind="retention", remote_topic="A.t")
    retained.progress.losses.take(0, "run", (loss, replace(loss, topic="u", remote_topic=None)))
    retained.losses.take(replace(loss, topic="v", kind="truncated", remote_topic="A.v"))
    retained.losses.take(replace(loss, first=20, until=21, kind="skipped"))
    retained.losses.take(replace(loss, first=30, until=31).accept(at=1, by="ann", reason=None))
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    for more, remote in (("", "A.u"), (identity, "u")):
        flow = without_target(tmp_path, retained, more)
        assert flow.lost == {TopicPartition("A.t", 2): 4, TopicPartition(remote, 2): 4}
        assert flow.loss_counts == {TopicPartition("A.t", 2): 1, TopicPartition(remote, 2): 1}
        assert flow.unaccepted_losses == {
            (TopicPartition("A.v", 2), "truncated"): 1,
            (TopicPartition("A.t", 2), "retention"): 1,
            (TopicPartition(remote, 2), "retention"): 1,
        }
        assert [one.topic for one in flow.losses] == ["v", "t", "u"]


def status(directory: Path, kind: str, *, moved_s: float) -> FlowStatus:
    """Return the status on node one, whose only task was to be released ``moved_s`` ago and moves to node two."""
    settings, cluster = files.flow(directory), unconnected_cluster()
    place = TaskPlacement(owner="m-1", node="one", since=1, home="two", next="m-2")
    task = TaskId(kind, 0)
    retained = RetainedFlowState(
        placement=TaskAssignments(epoch=2, places={task: place}), moved_at={task: time.monotonic() - moved_s}
    )
    identity = NodeIdentity(node_id="one", version="1")
    configs = ConfigStore(settings, cluster, on_change=lambda: None, on_command=lambda _: None)
    context = task_context(settings, configs, cluster, node_id="one")
    session = FlowSession(settings, identity, context.lease_service, retained, AuditQueue(), leaving=False)
    session.configs, session.statuses, session.losses = context.configs, context.statuses, context.losses
    session.audit = AuditStore(settings, cluster, ControlProducer(cluster), AuditQueue())
    session.source_offsets = StoredSourceOffsets(
        cluster, "mm2-offsets.A.internal", settings.flow, source_alias="A", partitions=25
    )
    counted = (
        session.configs.skipped,
        session.statuses.skipped,
        session.losses.skipped,
        session.source_offsets.skipped,
    )
    for number, skipped in enumerate(counted):
        for record in [UNREADABLE] * number:
            skipped.take(record, lambda _: None)
    session.host = TaskHost(context, lambda: None)
    session.membership = Joined(generation=2, member_id="m-1", leader_id="m-1", members=MEMBERS, assignment=None)
    session.leader.leader_term = Leader(
        settings,
        generation=2,
        source=cluster,
        target=cluster,
        configs=context.configs,
        reports={},
        query_uses=ReportedQueryUses(),
        fingerprint=lambda: None,
        changed=lambda: None,
    )
    return FlowStatusBuilder(
        settings=settings,
        identity=identity,
        retained=retained,
        session=session,
        own_state=None,
        error=None,
        connect_error=None,
        duplicate_node_ids=DuplicateNodeIds(),
    ).build()


def test_a_flow_is_running_while_a_heartbeat_or_checkpoint_task_only_moves(tmp_path: Path) -> None:
    for kind in (TaskKind.HEARTBEAT, TaskKind.CHECKPOINT):
        flow = status(tmp_path, kind, moved_s=0.0)
        assert (flow.state, flow.reasons) == (TaskState.RUNNING, ())
        assert [(one.state, one.error) for one in flow.tasks] == [(TaskState.WAITING, MOVES)]


def test_a_flow_is_waiting_while_a_task_that_copies_records_moves_or_a_move_does_not_end(tmp_path: Path) -> None:
    for kind, moved_s in ((TaskKind.SOURCE, 0.0), (TaskKind.HEARTBEAT, MOVES_WITHIN_S)):
        flow = status(tmp_path, kind, moved_s=moved_s)
        assert (flow.state, flow.reasons) == (TaskState.WAITING, (MOVES,))


def test_skipped_records_of_all_internal_topics_are_counted(tmp_path: Path) -> None:
    flow = status(tmp_path, TaskKind.HEARTBEAT, moved_s=0.0)
    assert flow.skipped == {"mm2-status.A.internal": 1, "mm2-losses.A.internal": 2, "mm2-offsets.A.internal": 3}
