from __future__ import annotations

import io

from rich.console import Console, RenderableType

from mm2.cli.lag import lag_view
from mm2.cli.status import status_view
from mm2.core.lease import TaskState
from mm2.node.published import NodeStatus
from mm2.rest.shapes import FlowShape
from tests.contract.samples import LOSS, flow, heartbeat_flow, node, partition, task, topic


def shapes(status: NodeStatus) -> list[FlowShape]:
    return [FlowShape.of(flow) for flow in status.flows]


def lines(view: RenderableType) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=200, highlight=False).print(view)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


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
    assert lines(lag_view(shapes(node(heartbeat_flow())))) == ["nothing is replicated"]


def test_lag_shows_the_worst_first_and_the_unknown_last() -> None:
    status = node(
        flow(
            topic(
                "orders",
                partition(0, position=-1, end_offset=-1),
                partition(1, lag_records=5, lag_seconds=1),
                partition(2, lag_records=5, lag_seconds=9),
            ),
            topic("users", partition(0, position=5_000, end_offset=17_345, lag_records=12_345, lag_seconds=60)),
        )
    )
    assert lines(lag_view(shapes(status))) == [
        "flow  topic   partition  position  end offset  lag records  lag seconds  state",
        "A->B  users           0     5,000      17,345       12,345         60.0  RUNNING",
        "A->B  orders          2        90         100            5          9.0  RUNNING",
        "A->B  orders          1        90         100            5          1.0  RUNNING",
        "A->B  orders          0         -           -            -            -  RUNNING",
    ]
