"""Nodes that request shares from each other: real servers and signatures, with the flows set by each test."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm2.core.coordination.request_signing import sign
from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import GroupState
from mm2.rest.merge.cluster_view import ClusterView
from mm2.rest.merge.flow_merge import FlowShare
from mm2.rest.public import flows
from tests.contract.certificates import caller_context, https_file, node_context
from tests.contract.nodes import KEY, OTHER_KEY, PLAIN, RestNode, rest_nodes, signed
from tests.contract.samples import flow, group, heartbeat_flow, member, node, partition, task, topic
from tests.lab.listeners import Authority
from tests.lab.waiting import until

FRESH_S = flows.SHARE.fresh_s
ANSWERED = 60.0  # seconds: a node waits 2 s for another's share; busy cores and a first handshake can take longer


def share(nodes: Sequence[RestNode], **urls: str) -> None:
    """Let the first node lead, and let each node copy the partition of its own number.

    ``urls``: nodes whose advertised URL is different.
    """
    names = [one.name for one in nodes]
    tasks = [f"MirrorSourceConnector-{number}" for number in range(len(nodes))]
    members = tuple(
        member(one.name, urls.get(one.name, one.server.url), tasks[number], leads=number == 0)
        for number, one in enumerate(nodes)
    )
    for number, one in enumerate(nodes):
        leads = number == 0
        copied = partition(number, node=names[number], source_task=number, position=1_000 + number, end_offset=2_000)
        others = [
            partition(
                other, node=names[other], source_task=other, state=TaskState.WAITING, position=None, end_offset=None
            )
            for other in range(len(nodes))
            if other != number and leads
        ]
        listed = [task(id=id, node=names[other]) for other, id in enumerate(tasks) if leads or other == number]
        status = flow(
            topic("orders", *sorted([copied, *others], key=lambda one: one.partition)),
            leader=names[0],
            is_leader=leads,
            members=members,
            tasks=tuple(listed),
        )
        one.published = node(status, heartbeat_flow(), node_id=names[number])
        one.stand(leads=leads, leader=nodes[0])


async def get(one: RestNode, path: str = "/flows") -> Any:
    async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as client:
        answer = await client.get(one.server.url + path)
    assert answer.status_code == HTTPStatus.OK
    return answer.json()


async def ask(view: ClusterView, one: RestNode) -> Mapping[str, FlowShare | str]:
    """Return the shares of A->B that the node receives from the others."""
    return await view.shares(flows.SHARE, one.published, one.published.flows[0])


def positions(shown: Any) -> dict[int, int]:
    return {part["partition"]: part["position"] for part in shown[0]["topics"][0]["partitions"]}


async def test_every_node_returns_the_whole_flow() -> None:
    async with rest_nodes(["a", "b", "c"]) as nodes:
        share(nodes)
        shown = [await get(one) for one in nodes]
        assert shown[0] == shown[1] == shown[2]
        whole, other = shown[0]
        assert (whole["leader"], whole["state"], whole["reasons"]) == ("a", "RUNNING", [])
        assert [one["node"] for one in whole["members"]] == ["a", "b", "c"]
        assert [one["node"] for one in whole["tasks"]] == ["a", "b", "c"]
        assert positions(shown[1]) == {0: 1_000, 1: 1_001, 2: 1_002}
        assert other["flow"] == "B->A"  # each node runs its own


async def test_concurrent_requests_share_one_round() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        now = 100.0
        view = ClusterView(a.view._leader_contexts, a.peers, clock=lambda: now)
        before = b.times_asked
        for _ in range(3):
            answers = await asyncio.gather(*(ask(view, a) for _ in range(10)))
            assert all(one.keys() == {"b"} for one in answers)
        assert b.times_asked == before + 1
        now += FRESH_S
        await ask(view, a)
        assert b.times_asked == before + 2
        await view.close()


async def test_cancelled_request_does_not_cancel_the_shared_round() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        impatient = asyncio.create_task(ask(a.view, a))
        patient = asyncio.create_task(ask(a.view, a))
        await asyncio.sleep(0)
        impatient.cancel()
        assert not isinstance((await patient)["b"], str)
        await asyncio.wait([impatient])
        assert impatient.cancelled()


async def test_flow_with_one_member_sends_no_requests() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a,))
        before = b.times_asked
        assert positions(await get(a)) == {0: 1_000}
        assert await ask(a.view, a) == {}
        assert b.times_asked == before


async def test_unreachable_nodes_are_reported_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as taken:
        no_response = f"http://127.0.0.1:{silent.getsockname()[1]}"
        unreachable_url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        taken.close()
        async with rest_nodes(["a", "b", "c", "d", "e"], share_s=None) as nodes:
            share(nodes, b=no_response, c=unreachable_url, d="", e=nodes[0].server.url)
            (whole, _) = await get(nodes[0])
    assert whole["state"] == "WAITING"
    assert positions([whole]) == {0: 1_000, 1: None, 2: None, 3: None, 4: None}
    assert [(one["node"], one["state"]) for one in whole["tasks"]] == [
        ("a", "RUNNING"),
        *((name, "WAITING") for name in "bcde"),
    ]
    beginning = "state of node {} is unknown: "
    for reason, (name, why) in zip(
        whole["reasons"],
        (
            ("b", f"{no_response} did not answer within 2 s"),
            ("c", f"{unreachable_url}/A/B/mm2/status is not reachable"),
            ("d", "it has no listeners"),
            ("e", f"its advertised URL {nodes[0].server.url} belongs to node a: check rest.advertised"),
        ),
        strict=True,
    ):
        assert reason.startswith(beginning.format(name) + why)


async def test_no_share_is_accepted_without_a_common_session_key() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        a.stand(leads=True, key=None)
        assert "not read the session key" in (await get(a))[0]["reasons"][0]
        assert (
            "not read the session key" in (await get(b))[0]["reasons"][0]
        )  # without a key, a cannot verify signatures
        b.stand(leader=a, key=OTHER_KEY)
        a.stand(leads=True)
        await asyncio.sleep(FRESH_S)  # otherwise the cached response is returned
        assert "contained invalid signature" in (await get(a))[0]["reasons"][0]
        b.stand(leader=a)
        await asyncio.sleep(FRESH_S)
        assert (await get(a))[0]["reasons"] == []


async def test_request_is_retried_while_a_rotated_session_key_is_not_read_yet() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        keys = iter((OTHER_KEY, OTHER_KEY, KEY))
        view = ClusterView(lambda _source, _target: replace(a.leader_context, session_key=next(keys)), a.peers)
        assert not isinstance((await ask(view, a))["b"], str)
        assert next(keys, None) is None, "the node sent three requests"
        await view.close()


@pytest.mark.parametrize("path", ["/A/B/mm2/status", "/A/B/mm2/groups"])
async def test_requests_without_a_valid_signature_get_no_share(path: str) -> None:
    async with rest_nodes(["a"]) as (a,), httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as client:
        share((a,))
        right = signed(a.server.url, path, method="GET", token=None)
        cases = [
            ({}, 400),
            (sign(KEY.secret, b"", "HmacSHA256"), 400),
            (signed(a.server.url, path, method="GET", token=None, key=OTHER_KEY), 403),
            (right, 200),
            (right, 403),
        ]
        for headers, status in cases:
            assert (await client.get(a.server.url + path, headers=headers)).status_code == status
        a.published = node(heartbeat_flow())  # the flow has just been removed
        again = signed(a.server.url, path, method="GET", token=None)
        answer = await client.get(a.server.url + path, headers=again)
        assert (answer.status_code, answer.json()["message"]) == (404, "no flow A->B on this node")


@pytest.mark.parametrize(("method", "path"), [("PUT", "fence"), ("POST", "tasks")])
async def test_requests_of_java_nodes_are_rejected_with_an_error(method: str, path: str) -> None:
    body = b"[]"
    async with rest_nodes(["a"]) as (a,), httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as client:
        share((a,))
        url = f"{a.server.url}/A/B/connectors/MirrorSourceConnector/{path}"
        for key, status, message in (
            (KEY, HTTPStatus.NOT_IMPLEMENTED, "MirrorSourceConnector: an mm2 node does not accept task"),
            (OTHER_KEY, HTTPStatus.FORBIDDEN, "invalid signature"),
        ):
            headers = sign(key.secret, body, "HmacSHA256")
            answer = await client.request(method, url, content=body, headers=headers)
            assert answer.status_code == status
            assert message in answer.json()["message"]


async def test_unexpected_responses_of_another_program() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        b.published = replace(b.published, node_id="b")

        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            share((a, b), b=url)
            assert (
                f"unexpected response from {url}: do all nodes run the same release?" in (await get(a))[0]["reasons"][0]
            )
            reasons = (await get(a, "/flows/A/B/groups"))["reasons"]
            assert f"unexpected response from {url} (no list of groups)" in reasons[0]


def assign_groups(one: RestNode, *names: str) -> None:
    """Assign these groups to a node and publish its group state."""
    groups = tuple(group(name, state=GroupState.WAITING, reason="not yet") for name in names)
    of_flow = replace(one.published.flows[0], groups=groups, group_reasons=(f"{one.name} reads offset syncs",))
    one.published = replace(one.published, flows=(of_flow,))


async def test_every_node_returns_the_groups_of_all_nodes() -> None:
    async with rest_nodes(["a", "b", "c"]) as nodes:
        share(nodes, c="")
        assign_groups(nodes[0])
        assign_groups(nodes[1], "billing", "audit", 'odd","groups":[')
        for one in nodes[:2]:
            shown = await get(one, "/flows/A/B/groups")
            assert [group["group"] for group in shown["groups"]] == ["audit", "billing", 'odd","groups":[']
            assert shown["reasons"][0] == "b reads offset syncs"
            assert shown["reasons"][1].startswith("state of node c is unknown: it has no listeners")
        assert (await get(nodes[1], "/flows/A/B/groups"))["flow"] == "A->B"


async def test_large_shares_are_compressed() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        wide = tuple(topic(f"t{number}", *(partition(one, node="b") for one in range(100))) for number in range(50))
        b.published = replace(b.published, flows=(replace(b.published.flows[0], topics=wide, is_leader=True, epoch=9),))

        async def wide_flow() -> Any:
            shown = (await get(a))[0]
            return shown if len(shown["topics"]) == len(wide) else None

        whole = await until(wide_flow, ANSWERED, "a has waited long enough for b's share")
        assert len(whole["topics"][0]["partitions"]) == 100
        path = "/A/B/mm2/status"
        headers = {**signed(b.server.url, path, method="GET", token=None), "Accept-Encoding": "gzip"}
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as client:
            answer = await client.get(b.server.url + path, headers=headers)
        assert answer.headers["content-encoding"] == "gzip"


async def test_nodes_with_mutual_tls(tmp_path: Path) -> None:
    authority = Authority()
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.client.auth": "required"})
    async with rest_nodes(["a", "b"], tls=settings.listening.tls, context=node_context(settings)) as (a, b):
        share((a, b))
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=caller_context(authority, "ops")) as client:

            async def whole() -> Any:
                shown = (await client.get(f"{b.server.url}/flows")).json()
                return shown if positions(shown) == {0: 1_000, 1: 1_001} else None

            shown = await until(whole, ANSWERED, "b returns a's partition too")
        assert json.dumps(shown[0]["members"][0]["url"]).startswith('"https://')
