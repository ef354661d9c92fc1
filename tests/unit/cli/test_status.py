from __future__ import annotations

from mm2.cli.status import status_view
from mm2.core.lease import TaskState
from tests.contract.samples import LOSS, flow, heartbeat_flow, node, partition, task, topic
from tests.unit.cli.views import lines, shapes


def test_status() -> None:
    status = node(
        flow(
            topic(
                "orders", partition(0, position=1_000, end_offset=1_500, lag_records=500, lag_seconds=2), partition(1)
            ),
            topic("users", partition(0, position=-1, end_offset=-1)),
        ),
        heartbeat_flow(),
    )
    assert lines(status_view(shapes(status))) == [
        "A->B  RUNNING  leader node-1  epoch 7",
        "topic   remote topic  state    partitions  written  position  lag records  lag seconds",
        "orders  A.orders      RUNNING           2    1,600     1,090          510          2.0",
        "users   A.users       RUNNING           1        -         -            -            -",
        "",
        "B->A  RUNNING  heartbeats only",
    ]


def test_status_names_every_trouble() -> None:
    status = node(
        flow(
            topic(
                "orders",
                partition(3, state=TaskState.FAILED, error="offset 17: [too] large"),
                state=TaskState.FAILED,
                error="no rights",
            ),
            state=TaskState.WAITING,
            leader=None,
            reasons=("cluster B is unreachable",),
            tasks=(task(state=TaskState.FAILED, error="lane 0 does not start"),),
            losses=(LOSS,),
        )
    )
    shown = lines(status_view(shapes(status)))
    assert shown[0] == "A->B  WAITING  leader none  epoch 7"
    assert shown[3:] == [
        "  ! cluster B is unreachable",
        "  ! task MirrorSourceConnector-0 on node-1: lane 0 does not start",
        "  ! topic orders: no rights",
        "  ! topic orders partition 3: offset 17: [too] large",
        "  ! topic orders partition 0: offsets 10 to 24 are lost: retention was faster than replication",
    ]


def test_a_node_without_flows() -> None:
    assert lines(status_view([])) == ["the node has no flows"]
