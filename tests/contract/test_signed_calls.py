from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from dataclasses import replace

import httpx
import pytest

from mm2.core.coordination.request_signing import (
    ALGORITHM_HEADER,
    OWN_SIGNATURE_HEADER,
    REQUEST_HEADER,
    VALID_MS,
    sign,
)
from mm2.core.coordination.session_keys import SessionKey
from mm2.node.commands.pause import Pause
from mm2.rest.internal.peers import LARGEST_BYTES, PeerError, PeerRequest, Peers
from mm2.rest.internal.signed_calls import LARGEST_REQUEST, RefusalError, by_leader
from tests.contract.nodes import A_B, KEY, OTHER_KEY, PLAIN, TOKEN, RestNode, rest_nodes, signed

PATH = "/A/B/mm2/commands"
BODY = b'{ "topics" : ["gr\xc3\xb6\xc3\x9fe"],\n"command":"pause" }'
PAUSE = Pause(topics=("größe",))
REQUEST = PeerRequest(method="POST", path=("mm2", "commands"), body=BODY, token=TOKEN)


async def post(
    node: RestNode, *, path: str = PATH, body: bytes = BODY, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    """Send a request and return its status and message. Headers default to those of a valid signature."""
    if headers is None:
        headers = signed(node.server.url, path, body)
    async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as client:
        answer = await client.post(f"{node.server.url}{path}", content=body, headers=headers)
    received = answer.json()
    if answer.is_success:
        return answer.status_code, received["node"]
    assert received["error_code"] == answer.status_code
    assert set(received) == {"error_code", "message"}
    return answer.status_code, received["message"]


async def test_leader_executes_requests_signed_over_the_raw_body() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        assert await post(node) == (202, "one")
        assert node.commands.done == [PAUSE]


@pytest.mark.parametrize("leads", [True, False])
async def test_rejected_requests(leads: bool) -> None:
    """The signature of a forwarded request is verified by the receiving node: leader and follower alike."""
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=leads)
        url = node.server.url
        right = signed(url, PATH, BODY)
        without = {name: {other: right[other] for other in right if other != name} for name in right}
        other = "http://127.0.0.1:1"
        cases: list[tuple[dict[str, str], int, str]] = [
            ({}, 400, "missing required signature"),
            (without[OWN_SIGNATURE_HEADER], 400, "missing required signature"),
            (without[ALGORITHM_HEADER], 400, "missing required signature"),
            (without[REQUEST_HEADER], 400, "do all nodes run the same release of mm2?"),
            ({**right, ALGORITHM_HEADER: "HmacNone"}, 400, "does not support 'HmacNone'"),
            ({**right, OWN_SIGNATURE_HEADER: "not base64"}, 400, "is not base64"),
            ({**right, REQUEST_HEADER: "yesterday"}, 400, "is not a time and 32 hex digits"),
            (signed(url, PATH, BODY, algorithm="HmacSHA512"), 400, "inter.worker.verification.algorithms"),
            (sign(KEY.secret, BODY, "HmacSHA256"), 400, "missing required signature"),
            (signed(url, PATH, BODY, key=OTHER_KEY), 403, "invalid signature"),
            (signed(url, PATH, BODY + b" "), 403, "invalid signature"),
            (signed(url, "/A/B/mm2/status", BODY), 403, "invalid signature"),
            (signed(url, f"{PATH}?forward=true", BODY), 403, "invalid signature"),
            (signed(url, PATH, BODY, method="PUT"), 403, "invalid signature"),
            (signed(other, PATH, BODY), 403, "invalid signature"),
            ({**right, REQUEST_HEADER: signed(url, PATH)[REQUEST_HEADER]}, 403, "invalid signature"),
            (signed(url, PATH, BODY, later_s=-VALID_MS / 1000 - 60), 403, "s ago by this node's clock"),
            (signed(url, PATH, BODY, later_s=VALID_MS / 1000 + 60), 403, "synchronize the clocks"),
            (signed(url, PATH, BODY, later_s=-60), 403, "before this node started"),
            (signed(url, PATH, BODY, token=None), 403, "have the same mm2.rest.admin.token?"),
            (signed(url, PATH, BODY, token=f"{TOKEN}x"), 403, "have the same mm2.rest.admin.token?"),
        ]
        for headers, status, expected in cases:
            code, message = await post(node, headers=headers)
            assert code == status
            assert expected in message
        assert (await post(node, path="/A/C/mm2/commands", headers={}))[0] == 404
        assert (await post(node, body=b"{}"))[0] == 400
        node.stand(leads=leads, key=None)
        assert (await post(node))[0] == 503
        assert node.commands.done == []


async def test_a_recorded_request_is_not_executed_again() -> None:
    """Nor is it by another node, for another path, or by a node that reads the session key only."""
    async with rest_nodes(["one", "two"]) as (one, two):
        for node in (one, two):
            node.stand(leads=True)
        recorded = signed(one.server.url, PATH, BODY)
        assert await post(one, headers=recorded) == (202, "one")
        assert await post(one, headers=recorded) == (403, "Internal request was received before")
        assert (await post(two, headers=recorded))[0] == 403
        assert (one.commands.done, two.commands.done) == ([PAUSE], [])


async def test_requests_over_http_to_another_machine_cause_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with rest_nodes(["one"], within=0.1) as (node,):
        node.stand(leads=True)
        for url in (node.server.url, "http://192.0.2.1:8083", "http://192.0.2.1:8083", "https://192.0.2.1:8083"):
            with contextlib.suppress(PeerError):
                await node.peers.ask(url, node.leader_context, REQUEST)
    assert [record.getMessage() for record in caplog.records if record.name == "mm2.rest"] == [
        "requests to http://192.0.2.1:8083 are not encrypted: everyone on the network between the nodes can read them. "
        "Use https listeners, and set rest.advertised.listener = https"
    ]


async def test_large_bodies_are_rejected_before_they_are_read() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        code, message = await post(node, body=b" " * (LARGEST_REQUEST + 1))
        assert (code, message) == (413, f"more than {LARGEST_REQUEST} bytes")


async def test_follower_forwards_to_the_leader_with_its_own_signature() -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        assert await post(follower) == (202, "leader")
        assert (leader.commands.done, follower.commands.done) == ([PAUSE], [])


async def test_requests_are_forwarded_twice_at_most() -> None:
    async with rest_nodes(["one", "two", "three"]) as (one, two, three):
        one.stand(leader=two)
        two.stand(leader=three)
        three.stand(leader=one)
        code, message = await post(one)
        assert (code, message) == (
            409,
            "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
        )
        three.stand(leads=True)
        assert await post(one) == (202, "three")
        assert (await post(one, path=f"{PATH}?forward=true"))[0] == 409  # already forwarded once
        assert (await post(two, path=f"{PATH}?forward=true")) == (202, "three")
        assert (await post(two, path=f"{PATH}?forward=false"))[0] == 409


async def test_unknown_leader() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand()
        code, message = await post(node)
        assert code == 409
        assert "no known leader URL" in message


async def test_unreachable_leader() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        unreachable_url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    async with rest_nodes(["one"]) as (node,):
        node.stand(leader=unreachable_url)
        code, message = await post(node)
        assert code == 500
        assert f"{unreachable_url}/A/B/mm2/commands is not reachable" in message


async def test_leader_does_not_respond() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with rest_nodes(["one"], within=0.3) as (node,):
            node.stand(leader=f"http://127.0.0.1:{silent.getsockname()[1]}")
            code, message = await post(node)
            assert code == 500
            assert "did not answer in time" in message


async def test_slow_leader() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)

        async def slowly() -> bytes:
            await asyncio.sleep(60)
            return b""

        with pytest.raises(RefusalError, match="timed out after 0 s") as caught:
            await by_leader(node.leader_context, REQUEST, slowly, node.peers, within=0.05)
        assert caught.value.status == 500

        async def gives_up() -> bytes:
            raise TimeoutError("the config topic does not answer")

        with pytest.raises(TimeoutError, match="the config topic"):
            await by_leader(node.leader_context, REQUEST, gives_up, node.peers)


async def test_rotated_key_is_a_retriable_403() -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True, key=OTHER_KEY)
        follower.stand(leader=leader)
        with pytest.raises(PeerError) as caught:
            await follower.peers.ask(leader.server.url, follower.leader_context, REQUEST)
        error = caught.value
        assert (error.status, error.retriable, str(error)) == (
            403,
            True,
            "Internal request contained invalid signature: do all nodes of the flow have the same "
            "mm2.rest.admin.token?",
        )
        assert (await post(follower))[0] == 403  # the status returned by the leader
        follower.stand(leader=leader, key=OTHER_KEY)
        taken = json.loads(await follower.peers.ask(leader.server.url, follower.leader_context, REQUEST))
        assert taken["node"] == "leader"


@pytest.mark.parametrize("algorithm", ["HmacSHA512", "HmacMD5", "HmacSHA3-256"])
async def test_other_signature_algorithms(algorithm: str) -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        leader.leader_context = replace(leader.leader_context, accepted_algorithms=("HmacSHA256", algorithm))
        follower.leader_context = replace(follower.leader_context, signature_algorithm=algorithm)
        assert await post(follower) == (202, "leader")


async def test_session_key_written_by_java() -> None:
    key = SessionKey(secret=bytes(range(200, 232)), algorithm="HmacSHA512", created_ms=1)
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True, key=key)
        async with Peers(PLAIN) as peers:
            assert await peers.ask(f"{node.server.url}/", node.leader_context, REQUEST)


async def test_no_request_is_sent_without_a_key() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True, key=None)
        with pytest.raises(PeerError, match="not read the session key") as caught:
            await node.peers.ask(node.server.url, node.leader_context, REQUEST)
        assert (caught.value.status, caught.value.retriable) == (503, True)


@pytest.mark.parametrize(
    ("answer", "expected", "status", "retriable"),
    [
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\n[]", "returned HTTP status 400", 400, False),
        (b"HTTP/1.1 503 Away\r\nContent-Length: 4\r\n\r\nAway", "returned HTTP status 503", 503, True),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "HTTP status 302", 302, False),
        (b"SSH-2.0-OpenSSH\r\n", "is not reachable", None, True),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (LARGEST_BYTES + 1), "is it a node of this flow", None, True),
    ],
)
async def test_unexpected_responses(answer: bytes, expected: str, status: int | None, retriable: bool) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server, rest_nodes(["one"]) as (node,):
        node.stand()
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(PeerError, match=expected) as caught:
            await node.peers.ask(url, node.leader_context, REQUEST)
        assert (caught.value.status, caught.value.retriable) == (status, retriable)


async def test_no_request_is_sent_to_what_is_no_node() -> None:
    """Whoever may join the group can write a URL: a node must not ask the metadata service of a cloud for it."""
    async with rest_nodes(["one"]) as (node,):
        node.stand()
        for url, why in (("http://169.254.169.254:80", "leads to 169.254.169.254"), ("http://a:1/x", "advertises")):
            with pytest.raises(PeerError, match=why):
                await node.peers.ask(url, node.leader_context, REQUEST)


async def test_names_are_escaped_in_urls() -> None:
    """Aliases need no escaping; task names of user-defined connectors might."""
    seen: list[bytes] = []

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0])
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server, Peers(PLAIN) as peers:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        request = PeerRequest(method="PUT", path=("connectors", "a/b ?c", "fence"), forward=True)
        async with rest_nodes(["one"]) as (node,):
            node.stand()
            assert node.leader_context.flow == A_B
            assert await peers.ask(url, node.leader_context, request) == b""
    assert seen == [b"PUT /A/B/connectors/a%2Fb%20%3Fc/fence?forward=true HTTP/1.1"]
