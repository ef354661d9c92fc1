"""What a node offers to the leader, and which tasks it is therefore assigned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mm2.config.settings import FlowSettings
from mm2.core.assignment.task_placement import TaskAssignments
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.election.kafka.group_messages import decode_member, encode_member
from mm2.election.protocol import Joined, MemberInfo
from mm2.node.flow.member_metadata import MemberMetadata
from mm2.node.flow.task_assignments import place_tasks
from mm2.node.flow.task_host import TaskHost
from mm2.node.flow.task_runners import enabled_kinds
from mm2.node.identity import NodeIdentity
from mm2.node.store.config_store import ConfigStore
from tests.lab.tasks import task_context, unconnected_cluster
from tests.unit.config.files import flow

SOURCE = TaskId(TaskKind.SOURCE, 0)
HEARTBEAT = TaskId(TaskKind.HEARTBEAT, 0)


@pytest.fixture
def enabled(tmp_path: Path) -> FlowSettings:
    return flow(tmp_path)


@pytest.fixture
def disabled(tmp_path: Path) -> FlowSettings:
    return flow(tmp_path, "A->B.enabled = false\n")


def metadata(settings: FlowSettings, joined: Joined | None = None) -> MemberMetadata:
    configs = ConfigStore(settings, unconnected_cluster(), on_change=lambda: None, on_command=lambda _: None)
    context = task_context(settings, configs, unconnected_cluster(), node_id="n")
    return MemberMetadata(
        settings.flow,
        NodeIdentity(node_id="n", version="1"),
        context.lease_service,
        TaskHost(context, lambda: None),
        lambda: joined,
        kinds=lambda: enabled_kinds(settings),
        leaving=False,
    )


def offered(settings: FlowSettings) -> MemberInfo:
    """Return the metadata as the leader reads it."""
    info = decode_member(encode_member(metadata(settings).info()))
    assert info is not None
    return info


def test_node_whose_file_does_not_enable_the_flow_is_assigned_no_source_tasks(
    enabled: FlowSettings, disabled: FlowSettings
) -> None:
    info = offered(disabled)
    assert info.capacity > 0
    tasks = {SOURCE: 100, HEARTBEAT: 1}
    placement = place_tasks(tasks, {"m-1": info}, settings=enabled, before=TaskAssignments(), generation=1)
    assert placement.run("m-1") == (HEARTBEAT,)


def test_node_hands_over_only_to_nodes_that_run_the_same_kinds(enabled: FlowSettings, disabled: FlowSettings) -> None:
    def others_offer(other: MemberInfo) -> bool:
        joined = Joined(generation=1, member_id="me", leader_id="me", members={"other": other}, assignment=None)
        return metadata(enabled, joined).others_offer

    assert not others_offer(offered(disabled))
    assert others_offer(replace(offered(enabled), capacity=1))
    assert not others_offer(replace(offered(enabled), capacity=0))
