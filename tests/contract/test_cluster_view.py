"""Nodes that ask each other: real servers and signatures, whose flows a test sets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm2.core.lease import TaskState
from mm2.core.request_signing import sign
from mm2.node.published import GroupState, GroupStatus
from mm2.rest.cluster_view import FRESH_S, ClusterView
from mm2.rest.peers import PeerError, PeerRequest
from tests.contract.certificates import caller_context, https_file, node_context
from tests.contract.nodes import A_B, KEY, OTHER_KEY, PLAIN, RestNode, rest_nodes
from tests.contract.samples import flow, heartbeat_flow, member, node, partition, task, topic
from tests.lab.listeners import Authority
from tests.lab.waiting import until

SHARE = PeerRequest(method="GET", path=("mm2", "status"))
ANSWERED = 60.0  # seconds: a node waits two for another's share, which busy cores and a first handshake can outlast


def share(nodes: Sequence[RestNode], **urls: str) -> None:
    """Let the first node lead, and each of them copy the partition of its own number. ``urls``: others to be reached
    by."""
    names = [one.desk.name for one in nodes]
    tasks = [f"MirrorSourceConnector-{number}" for number in range(len(nodes))]
    members = tuple(
        member(one.desk.name, urls.get(one.desk.name, one.server.url), tasks[number], leads=number == 0)
        for number, one in enumerate(nodes)
    )
    for number, one in enumerate(nodes):
        leads = number == 0
        copied = partition(number, node=names[number], slot=number, position=1_000 + number, end_offset=2_000)
        others = [
            partition(other, node=names[other], slot=other, state=TaskState.WAITING, position=-1, end_offset=-1)
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
    async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
        answer = await client.get(one.server.url + path)
    assert answer.status_code == HTTPStatus.OK
    return answer.json()


def positions(shown: Any) -> dict[int, int]:
    return {part["partition"]: part["position"] for part in shown[0]["topics"][0]["partitions"]}


async def test_every_node_shows_the_whole_flow() -> None:
    async with rest_nodes(["a", "b", "c"]) as nodes:
        share(nodes)
        shown = [await get(one) for one in nodes]
        assert shown[0] == shown[1] == shown[2]
        whole, other = shown[0]
        assert (whole["leader"], whole["state"], whole["reasons"]) == ("a", "RUNNING", [])
        assert [one["node"] for one in whole["members"]] == ["a", "b", "c"]
        assert [one["node"] for one in whole["tasks"]] == ["a", "b", "c"]
        assert positions(shown[1]) == {0: 1_000, 1: 1_001, 2: 1_002}
        assert other["flow"] == "B->A"  # which each of them runs alone


async def test_a_dashboard_costs_one_round() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        now = 100.0
        view = ClusterView(a.view._standings, a.peers, clock=lambda: now)
        before = b.times_asked
        for _ in range(3):
            answers = await asyncio.gather(*(view.answers(a.published) for _ in range(10)))
            assert all(one[A_B].keys() == {"b"} for one in answers)
        assert b.times_asked == before + 1
        now += FRESH_S
        await view.answers(a.published)
        assert b.times_asked == before + 2
        await view.close()


async def test_a_caller_that_goes_away_does_not_end_the_round_of_the_others() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        impatient = asyncio.create_task(a.view.answers(a.published))
        patient = asyncio.create_task(a.view.answers(a.published))
        await asyncio.sleep(0)
        impatient.cancel()
        assert not isinstance((await patient)[A_B]["b"], str)
        await asyncio.wait([impatient])
        assert impatient.cancelled()


async def test_a_flow_of_one_node_asks_nobody() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a,))
        before = b.times_asked
        assert positions(await get(a)) == {0: 1_000}
        assert await a.view.answers(a.published) == {}
        assert b.times_asked == before


async def test_nodes_that_cannot_be_asked_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as taken:
        mute = f"http://127.0.0.1:{silent.getsockname()[1]}"
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}"
        taken.close()
        async with rest_nodes(["a", "b", "c", "d", "e"]) as nodes:
            share(nodes, b=mute, c=gone, d="", e=nodes[0].server.url)
            (whole, _) = await get(nodes[0])
    assert whole["state"] == "WAITING"
    assert positions([whole]) == {0: 1_000, 1: -1, 2: -1, 3: -1, 4: -1}
    assert [(one["node"], one["state"]) for one in whole["tasks"]] == [
        ("a", "RUNNING"),
        *((name, "WAITING") for name in "bcde"),
    ]
    beginning = "what node {} runs cannot be seen from here: "
    for reason, (name, why) in zip(
        whole["reasons"],
        (
            ("b", f"{mute} did not answer within 2 s"),
            ("c", f"{gone}/A/B/mm2/status is not reachable"),
            ("d", "it has no listeners that other nodes could ask"),
            ("e", f"{nodes[0].server.url}, where it says it is reached, is node a: look at rest.advertised"),
        ),
        strict=True,
    ):
        assert reason.startswith(beginning.format(name) + why)


async def test_without_a_common_key_nothing_is_told() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        a.stand(leads=True, key=None)
        assert "not read the session key" in (await get(a))[0]["reasons"][0]
        assert "not read the session key" in (await get(b))[0]["reasons"][0]  # a cannot verify without one
        b.stand(leader=a, key=OTHER_KEY)
        a.stand(leads=True)
        await asyncio.sleep(FRESH_S)  # else it is the answer from before
        assert "contained invalid signature" in (await get(a))[0]["reasons"][0]
        b.stand(leader=a)
        await asyncio.sleep(FRESH_S)
        assert (await get(a))[0]["reasons"] == []


async def test_a_new_session_key_that_one_of_two_nodes_has_not_read_yet_is_no_trouble() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        keys = iter((OTHER_KEY, OTHER_KEY, KEY))
        view = ClusterView(lambda _source, _target: replace(a.standing, session_key=next(keys)), a.peers)
        answers = await view.answers(a.published)
        assert not isinstance(answers[A_B]["b"], str)
        assert next(keys, None) is None, "it asked three times"
        await view.close()


@pytest.mark.parametrize("path", ["/A/B/mm2/status", "/A/B/mm2/groups"])
async def test_strangers_get_no_share(path: str) -> None:
    async with rest_nodes(["a"]) as (a,), httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
        share((a,))
        cases = [
            ({}, 400),
            (sign(OTHER_KEY.secret, b"", "HmacSHA256"), 403),
            (sign(KEY.secret, b"", "HmacSHA256"), 200),
        ]
        for headers, status in cases:
            assert (await client.get(a.server.url + path, headers=headers)).status_code == status
        a.published = node(heartbeat_flow())  # the flow has just ended
        answer = await client.get(a.server.url + path, headers=cases[-1][0])
        assert (answer.status_code, answer.json()["message"]) == (404, "there is no flow A->B on this node")


@pytest.mark.parametrize(("method", "path"), [("PUT", "fence"), ("POST", "tasks")])
async def test_what_java_s_nodes_ask_is_refused_with_a_sentence(method: str, path: str) -> None:
    request = PeerRequest(method=method, path=("connectors", "MirrorSourceConnector", path), body=b"[]")
    async with rest_nodes(["a"]) as (a,):
        share((a,))
        with pytest.raises(PeerError, match="MirrorSourceConnector: an mm2 node takes neither") as refused:
            await a.peers.ask(a.server.url, a.standing, request)
        assert (refused.value.status, refused.value.retriable) == (501, False)
        a.stand(leads=True, key=OTHER_KEY)
        with pytest.raises(PeerError, match="invalid signature"):
            await a.peers.ask(a.server.url, replace(a.standing, session_key=KEY), request)


async def test_a_program_that_is_no_node() -> None:
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
            assert f"{url} answers with what is no share of a flow" in (await get(a))[0]["reasons"][0]
            reasons = (await get(a, "/flows/A/B/groups"))["reasons"]
            assert f"the answer of {url} cannot be read, it has no list of groups" in reasons[0]


def looking_after(one: RestNode, *names: str) -> None:
    """Let a node have these groups, and say so."""
    groups = tuple(GroupStatus(group=name, state=GroupState.WAITING, reason="not yet") for name in names)
    of_flow = replace(one.published.flows[0], groups=groups, group_reasons=(f"{one.desk.name} reads offset syncs",))
    one.published = replace(one.published, flows=(of_flow,))


async def test_groups_of_all_nodes_from_any() -> None:
    async with rest_nodes(["a", "b", "c"]) as nodes:
        share(nodes, c="")
        looking_after(nodes[0])
        looking_after(nodes[1], "billing", "audit", 'odd","groups":[')
        for one in nodes[:2]:
            shown = await get(one, "/flows/A/B/groups")
            assert [group["group"] for group in shown["groups"]] == ["audit", "billing", 'odd","groups":[']
            assert shown["reasons"][0] == "b reads offset syncs"
            assert shown["reasons"][1].startswith("what node c runs cannot be seen from here: it has no listeners")
        assert (await get(nodes[1], "/flows/A/B/groups"))["flow"] == "A->B"


async def test_a_large_share_travels_compressed_and_whole() -> None:
    async with rest_nodes(["a", "b"]) as (a, b):
        share((a, b))
        wide = tuple(topic(f"t{number}", *(partition(one, node="b") for one in range(100))) for number in range(50))
        b.published = replace(b.published, flows=(replace(b.published.flows[0], topics=wide, is_leader=True, epoch=9),))
        (whole, _) = await get(a)
        assert sum(len(one["topics"][0]["partitions"]) for one in [whole]) == 100
        assert len(whole["topics"]) == 50
        headers = {**sign(KEY.secret, b"", "HmacSHA256"), "Accept-Encoding": "gzip"}
        async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
            answer = await client.get(f"{b.server.url}/A/B/mm2/status", headers=headers)
        assert answer.headers["content-encoding"] == "gzip"


async def test_nodes_on_https_that_want_certificates_of_each_other(tmp_path: Path) -> None:
    authority = Authority()
    settings = https_file(authority, tmp_path, {"listeners.https.ssl.client.auth": "required"})
    async with rest_nodes(["a", "b"], tls=settings.listening.tls, context=node_context(settings)) as (a, b):
        share((a, b))
        async with httpx.AsyncClient(trust_env=False, verify=caller_context(authority, "ops")) as client:

            async def whole() -> Any:
                shown = (await client.get(f"{b.server.url}/flows")).json()
                return shown if positions(shown) == {0: 1_000, 1: 1_001} else None

            shown = await until(whole, ANSWERED, "b shows a's partition too")
        assert json.dumps(shown[0]["members"][0]["url"]).startswith('"https://')
