from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from dataclasses import replace

import httpx
import pytest

from mm2.core.commands import Pause
from mm2.core.request_signing import ALGORITHM_HEADER, SIGNATURE_HEADER, sign
from mm2.core.session_keys import SessionKey
from mm2.rest.peers import LARGEST_BYTES, PeerError, PeerRequest, Peers
from mm2.rest.signed_calls import RefusalError, by_leader
from tests.contract.nodes import A_B, KEY, OTHER_KEY, PLAIN, RestNode, rest_nodes

PATH = "/A/B/mm2/commands"
BODY = b'{ "topics" : ["gr\xc3\xb6\xc3\x9fe"],\n"command":"pause" }'
PAUSE = Pause(topics=("größe",))
REQUEST = PeerRequest(method="POST", path=("mm2", "commands"), body=BODY)


async def post(
    node: RestNode, *, path: str = PATH, body: bytes = BODY, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    """Status and message. The headers are those of a signature by default."""
    signed = sign(KEY.secret, body, "HmacSHA256") if headers is None else headers
    async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
        answer = await client.post(f"{node.server.url}{path}", content=body, headers=signed)
    said = answer.json()
    if answer.is_success:
        return answer.status_code, said["node"]
    assert said["error_code"] == answer.status_code
    assert set(said) == {"error_code", "message"}
    return answer.status_code, said["message"]


async def test_the_leader_carries_out_what_is_signed_over_the_raw_bytes() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        assert await post(node) == (202, "one")
        assert node.desk.done == [PAUSE]


@pytest.mark.parametrize("leads", [True, False])
async def test_refusals(leads: bool) -> None:
    """Nobody looks at the signature of what is passed on but the node it comes to: all of them do."""
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=leads)
        right = sign(KEY.secret, BODY, "HmacSHA256")
        cases: list[tuple[dict[str, str], int, str]] = [
            ({}, 400, "missing required signature"),
            ({SIGNATURE_HEADER: right[SIGNATURE_HEADER]}, 400, "missing required signature"),
            ({ALGORITHM_HEADER: "HmacSHA256"}, 400, "missing required signature"),
            ({**right, ALGORITHM_HEADER: "HmacNone"}, 400, "'HmacNone' is no algorithm"),
            ({**right, SIGNATURE_HEADER: "not base64"}, 400, "is not base64"),
            (sign(KEY.secret, BODY, "HmacSHA512"), 400, "inter.worker.verification.algorithms"),
            (sign(OTHER_KEY.secret, BODY, "HmacSHA256"), 403, "invalid signature"),
            (sign(KEY.secret, BODY + b" ", "HmacSHA256"), 403, "invalid signature"),
        ]
        for headers, status, sentence in cases:
            code, message = await post(node, headers=headers)
            assert code == status
            assert sentence in message
        assert (await post(node, path="/A/C/mm2/commands", headers={}))[0] == 404
        assert (await post(node, body=b"{}"))[0] == (400 if leads else 409)
        node.stand(leads=leads, key=None)
        assert (await post(node))[0] == 503
        assert node.desk.done == []


async def test_what_is_too_large_is_refused_before_it_is_held() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        code, message = await post(node, body=b" " * (LARGEST_BYTES + 1))
        assert (code, message) == (413, f"more than {LARGEST_BYTES} bytes")


async def test_a_follower_passes_on_to_the_leader_and_signs_anew() -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        assert await post(follower) == (202, "leader")
        assert (leader.desk.done, follower.desk.done) == ([PAUSE], [])


async def test_two_hops_and_no_more() -> None:
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
        assert (await post(one, path=f"{PATH}?forward=true"))[0] == 409  # one hop is gone already
        assert (await post(two, path=f"{PATH}?forward=true")) == (202, "three")
        assert (await post(two, path=f"{PATH}?forward=false"))[0] == 409


async def test_no_leader_is_known() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand()
        code, message = await post(node)
        assert code == 409
        assert "no known leader URL" in message


async def test_the_leader_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gone = f"http://127.0.0.1:{taken.getsockname()[1]}"
    async with rest_nodes(["one"]) as (node,):
        node.stand(leader=gone)
        code, message = await post(node)
        assert code == 500
        assert f"{gone}/A/B/mm2/commands is not reachable" in message


async def test_the_leader_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with rest_nodes(["one"], within=0.3) as (node,):
            node.stand(leader=f"http://127.0.0.1:{silent.getsockname()[1]}")
            code, message = await post(node)
            assert code == 500
            assert "did not answer in time" in message


async def test_a_leader_that_takes_too_long() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)

        async def slowly() -> bytes:
            await asyncio.sleep(60)
            return b""

        with pytest.raises(RefusalError, match="not done within 0 s") as refused:
            await by_leader(node.standing, REQUEST, slowly, node.peers, within=0.05)
        assert refused.value.status == 500

        async def gives_up() -> bytes:
            raise TimeoutError("the config topic does not answer")

        with pytest.raises(TimeoutError, match="the config topic"):
            await by_leader(node.standing, REQUEST, gives_up, node.peers)


async def test_a_rotated_key_is_a_403_that_is_worth_trying_again() -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True, key=OTHER_KEY)
        follower.stand(leader=leader)
        with pytest.raises(PeerError) as refused:
            await follower.peers.ask(leader.server.url, follower.standing, REQUEST)
        error = refused.value
        assert (error.status, error.retriable, str(error)) == (
            403,
            True,
            "Internal request contained invalid signature",
        )
        assert (await post(follower))[0] == 403  # as the leader says
        follower.stand(leader=leader, key=OTHER_KEY)
        taken = json.loads(await follower.peers.ask(leader.server.url, follower.standing, REQUEST))
        assert taken["node"] == "leader"


@pytest.mark.parametrize("algorithm", ["HmacSHA512", "HmacMD5", "HmacSHA3-256"])
async def test_other_algorithms_where_both_sides_say_so(algorithm: str) -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        leader.standing = replace(leader.standing, accepted_algorithms=("HmacSHA256", algorithm))
        follower.standing = replace(follower.standing, signature_algorithm=algorithm)
        assert await post(follower) == (202, "leader")


async def test_a_key_from_the_config_topic_that_java_wrote() -> None:
    key = SessionKey(secret=bytes(range(200, 232)), algorithm="HmacSHA512", created_ms=1)
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True, key=key)
        async with Peers(PLAIN) as peers:
            assert await peers.ask(f"{node.server.url}/", node.standing, REQUEST)


async def test_nothing_is_asked_without_a_key() -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True, key=None)
        with pytest.raises(PeerError, match="not read the session key") as refused:
            await node.peers.ask(node.server.url, node.standing, REQUEST)
        assert (refused.value.status, refused.value.retriable) == (503, True)


@pytest.mark.parametrize(
    ("answer", "sentence", "status", "retriable"),
    [
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\n[]", "answers with HTTP status 400", 400, False),
        (b"HTTP/1.1 503 Away\r\nContent-Length: 4\r\n\r\nAway", "answers with HTTP status 503", 503, True),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "HTTP status 302", 302, False),
        (b"SSH-2.0-OpenSSH\r\n", "is not reachable", None, True),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (LARGEST_BYTES + 1), "is that a node of this flow", None, True),
    ],
)
async def test_what_is_no_node(answer: bytes, sentence: str, status: int | None, retriable: bool) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server, rest_nodes(["one"]) as (node,):
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(PeerError, match=sentence) as refused:
            await node.peers.ask(url, node.standing, REQUEST)
        assert (refused.value.status, refused.value.retriable) == (status, retriable)


async def test_names_travel_as_they_are() -> None:
    """Aliases need no quoting, task names of a user's own connectors might."""
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
            assert node.standing.flow == A_B
            assert await peers.ask(url, node.standing, request) == b""
    assert seen == [b"PUT /A/B/connectors/a%2Fb%20%3Fc/fence?forward=true HTTP/1.1"]
