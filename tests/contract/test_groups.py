from __future__ import annotations

from mm2.node.status.status_model import CheckpointStatus, GroupPartitionStatus, GroupState
from tests.contract.conftest import Serve
from tests.contract.samples import flow, group, node

TRANSLATED = GroupPartitionStatus(
    topic="orders",
    partition=3,
    remote_topic="A.orders",
    state=GroupState.TRANSLATED,
    reason="translated to 51",
    source_offset=50,
    translated_offset=51,
    precision="exact",
    records_read_again=0,
    checkpoint=CheckpointStatus(source_offset=50, target_offset=51),
    target_offset=40,
    sync="moved from 40 to 51",
)
FILTERED = GroupPartitionStatus(
    topic="secret",
    partition=0,
    remote_topic=None,
    state=GroupState.FILTERED,
    reason="excluded by topics.exclude: s.*",
    source_offset=None,
    translated_offset=None,
    precision=None,
    records_read_again=None,
    checkpoint=None,
    target_offset=None,
    sync=None,
)
GROUPS = (
    group(
        "g,1",
        TRANSLATED,
        FILTERED,
        reason="offsets of 1 partition are translated",
        source_state="Stable",
        target_state="Empty",
    ),
    group("x", state=GroupState.FILTERED, reason="not matched by groups: g.*", source_state="Empty"),
)


async def test_response_fields(serve: Serve) -> None:
    client = await serve(node(flow(groups=GROUPS, group_reasons=("the exact offsets cannot be read",))))
    answer = await client.get("/flows/A/B/groups")
    assert answer.status_code == 200
    assert answer.json() == {
        "flow": "A->B",
        "source": "A",
        "target": "B",
        "reasons": ["the exact offsets cannot be read"],
        "groups": [
            {
                "group": "g,1",
                "state": "TRANSLATED",
                "reason": "offsets of 1 partition are translated",
                "source_state": "Stable",
                "target_state": "Empty",
                "partitions": [
                    {
                        "topic": "orders",
                        "partition": 3,
                        "remote_topic": "A.orders",
                        "state": "TRANSLATED",
                        "reason": "translated to 51",
                        "source_offset": 50,
                        "translated_offset": 51,
                        "precision": "exact",
                        "records_read_again": 0,
                        "checkpoint": {"source_offset": 50, "target_offset": 51},
                        "target_offset": 40,
                        "sync": "moved from 40 to 51",
                    },
                    {
                        "topic": "secret",
                        "partition": 0,
                        "remote_topic": None,
                        "state": "FILTERED",
                        "reason": "excluded by topics.exclude: s.*",
                        "source_offset": None,
                        "translated_offset": None,
                        "precision": None,
                        "records_read_again": None,
                        "checkpoint": None,
                        "target_offset": None,
                        "sync": None,
                    },
                ],
            },
            {
                "group": "x",
                "state": "FILTERED",
                "reason": "not matched by groups: g.*",
                "source_state": "Empty",
                "target_state": None,
                "partitions": [],
            },
        ],
    }


async def test_flows_response_omits_groups(serve: Serve) -> None:
    client = await serve(node(flow(groups=GROUPS)))
    assert "g,1" not in (await client.get("/flows")).text


async def test_escaped_aliases_are_accepted(serve: Serve) -> None:
    client = await serve(node(flow(flow="us-west_1->größe", source="us-west_1", target="größe")))
    answer = await client.get("/flows/us%2Dwest%5F1/gr%C3%B6%C3%9Fe/groups")
    assert (answer.status_code, answer.json()["flow"]) == (200, "us-west_1->größe")


async def test_unknown_flow(serve: Serve) -> None:
    answer = await (await serve(node())).get("/flows/A/C/groups")
    assert answer.status_code == 404
    assert answer.json() == {"detail": "no flow A->C on this node; its flows: A->B, B->A"}
