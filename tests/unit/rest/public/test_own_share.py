from __future__ import annotations

from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import FlowStatus
from mm2.rest.merge.flow_merge import own_share
from tests.contract.samples import flow, member, node, partition, task, topic

SHARED = (member("node-1", leads=True), member("node-2"))


def of_leader() -> FlowStatus:
    failed = {"state": TaskState.FAILED, "error": "too large"}
    return flow(
        topic("orders", partition(0, node="node-1"), partition(1, node="node-2", **failed), state=TaskState.FAILED),
        topic("users", partition(0, node="node-2", **failed), state=TaskState.FAILED),
        topic("alone", partition(0, state=TaskState.WAITING), state=TaskState.WAITING),
        topic("denied", partition(0, node="node-2"), state=TaskState.FAILED, error="not authorized"),
        tasks=(task(), task(id="MirrorSourceConnector-1", node="node-2"), task(id="MirrorSourceConnector-2", node="")),
        members=SHARED,
    )


def test_share_omits_tasks_of_other_nodes() -> None:
    (own,) = own_share(node(of_leader()))
    assert [task.id for task in own.tasks] == ["MirrorSourceConnector-0", "MirrorSourceConnector-2"]
    assert [(one.topic, one.state, [part.partition for part in one.partitions]) for one in own.topics] == [
        ("orders", TaskState.RUNNING, [0]),
        ("alone", TaskState.WAITING, [0]),
        ("denied", TaskState.FAILED, []),
    ]


def test_share_of_the_only_node_is_unchanged() -> None:
    alone = flow(members=SHARED[:1])
    assert own_share(node(alone))[0] is alone
