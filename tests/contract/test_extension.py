"""Adding an endpoint, an endpoint merged from all nodes of a flow, or a command takes one module and one table line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mm2.core.access.audit import CommandOrigin
from mm2.core.coordination.command_records import decode_command, encode_command
from mm2.core.coordination.commands import Command
from mm2.core.naming.names import Flow
from mm2.node.commands import registry
from mm2.rest.app import ENDPOINTS
from tests.contract.extension import Announce
from tests.contract.nodes import PLAIN, TOKEN, WholeFlow, rest_nodes
from tests.contract.samples import flow, member, node

EXTENDED_ENDPOINTS = {
    **ENDPOINTS,
    "version": "tests.contract.extension:VERSION",
    "heartbeats": "tests.contract.extension:HEARTBEATS",
}


@pytest.fixture
def announce(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(registry.COMMANDS, "announce", "tests.contract.extension:ANNOUNCE")
    registry.command_types.cache_clear()
    yield
    registry.command_types.cache_clear()


async def test_added_endpoints_are_served() -> None:
    async with (
        rest_nodes(["a", "b"], endpoints=EXTENDED_ENDPOINTS) as nodes,
        httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as client,
    ):
        members = tuple(member(one.name, one.server.url) for one in nodes)
        for one, heartbeats in zip(nodes, (5, 7), strict=True):
            one.stand(leads=one is nodes[0], leader=nodes[0])
            one.published = node(flow(members=members, heartbeats_total=heartbeats), node_id=one.name)
        for one in nodes:
            assert (await client.get(f"{one.server.url}/version")).json() == "0.1.0"
            assert (await client.get(f"{one.server.url}/heartbeats")).json() == {"A->B": 12}
            assert (await client.get(f"{one.server.url}/A/B/mm2/heartbeats")).status_code == 400, (
                "shares require a signature"
            )
        described = (await client.get(f"{nodes[0].server.url}/openapi.json")).json()
        assert {"/version", "/heartbeats"} <= described["paths"].keys()


async def test_added_command_reaches_every_node(announce: None) -> None:
    published: Any = []

    async def carry_out(_: Flow, command: Command, __: CommandOrigin, ___: WholeFlow) -> str:
        return await registry.carry_out(command, published)

    async with (
        rest_nodes(["leader", "follower"], carry_out=carry_out) as (leader, follower),
        httpx.AsyncClient(
            timeout=30, trust_env=False, verify=PLAIN, headers={"Authorization": f"Bearer {TOKEN}"}
        ) as client,
    ):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        answer = await client.post(f"{follower.server.url}/flows/A/B/announce/hello")
        assert (answer.status_code, answer.json()["effect"]) == (202, "announced on every node: hello")
        assert "/flows/{source}/{target}/announce/{text}" in (await client.get(f"{leader.server.url}/docs")).text
    assert published == [Announce(text="hello")]
    announced: Any = []
    record = encode_command(published[0], 1_763_740_800_000)
    registry.run_on_this_node(decode_command(record, registry.command_types()), announced)
    assert announced == ["hello"]
