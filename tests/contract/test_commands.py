from __future__ import annotations

from pathlib import Path

import httpx
import psutil
import pytest

from mm2.core.coordination.commands import Command
from mm2.node.commands.copy_again import CopyAgain
from mm2.node.commands.pause import Pause
from mm2.node.commands.refresh import Refresh
from mm2.node.commands.restart import RestartTask
from mm2.node.commands.resume import Resume
from mm2.rest.access.gate import AccessGate
from mm2.rest.app import rest_app
from mm2.rest.internal.peers import PeerError, PeerRequest, Peers
from mm2.rest.internal.signed_calls import NO_SUCH_BODY
from mm2.rest.public.docs import docs_page
from mm2.rest.server.server import RestServer
from tests.contract.certificates import caller_context, https_file, node_context
from tests.contract.nodes import PLAIN, TOKEN, rest_context, rest_nodes
from tests.lab.listeners import Authority

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("path", "body", "command"),
    [
        ("pause", None, Pause()),
        ("pause", {}, Pause()),
        ("pause", {"topics": ["orders", "größe"]}, Pause(topics=("orders", "größe"))),
        ("resume", None, Resume()),
        ("resume", {"topics": ["orders"]}, Resume(topics=("orders",))),
        ("tasks/MirrorSourceConnector-0/restart", None, RestartTask(task="MirrorSourceConnector-0")),
        ("refresh", None, Refresh()),
        ("copy-again", {"topic": "orders"}, CopyAgain(topic="orders")),
        (
            "copy-again",
            {"topic": "größe", "partition": 1, "time": 1000, "dry_run": True, "yes": True},
            CopyAgain(topic="größe", partition=1, time=1000, dry_run=True, yes=True),
        ),
    ],
)
async def test_every_node_forwards_commands_to_the_leader(path: str, body: object, command: Command) -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN, headers=BEARER) as client:
            for node in (leader, follower):
                answer = await client.post(f"{node.server.url}/flows/A/B/{path}", json=body)
                assert answer.status_code == 202
                assert answer.json() == {
                    "flow": "A->B",
                    "command": command.command,
                    "node": "leader",
                    "effect": "it is done",
                }
        assert leader.commands.done == [command, command]
        assert follower.commands.done == []


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"topic": ""},
        {"topic": "orders", "partition": -1},
        {"topic": "orders", "offset": -1},
        {"topic": "orders", "time": -1},
        {"topic": "orders", "time": 10**18},
        {"topic": "orders", "from": 7},
    ],
)
async def test_invalid_requests_copy_nothing_again(body: object) -> None:
    """A misspelled field would otherwise copy everything again."""
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN, headers=BEARER) as client:
            answer = await client.post(f"{node.server.url}/flows/A/B/copy-again", json=body)
        assert answer.status_code == 422
        assert node.commands.done == []


async def test_every_node_returns_the_leaders_error() -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN, headers=BEARER) as client:
            for node in (leader, follower):
                flows = f"{node.server.url}/flows"
                answer = await client.post(f"{flows}/A/C/pause")
                assert (answer.status_code, answer.json()) == (404, {"detail": "no flow A->C on this node"})
                answer = await client.post(f"{flows}/A/B/tasks/MirrorSourceConnector-9/restart")
                detail = "A->B has no task MirrorSourceConnector-9"
                assert (answer.status_code, answer.json()) == (404, {"detail": detail})
                answer = await client.post(f"{flows}/A/B/pause", json={"topics": ["secret"]})
                detail = "topic secret is being recreated: try again in a minute"
                assert (answer.status_code, answer.json()) == (409, {"detail": detail})
                assert (await client.post(f"{flows}/A/B/pause", json={"topics": [""]})).status_code == 422
                assert (await client.get(f"{flows}/A/B/pause")).status_code == 405
        assert leader.commands.done == []


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b'{"topic": ["orders"]}'),
        ("application/json", b'{"topics": "orders"}'),
        ("application/json", b'["orders"]'),
        ("application/json", b"{"),
        ("application/x-www-form-urlencoded", b'{"topics": ["orders"]}'),
    ],
)
async def test_invalid_body_is_rejected_and_never_applies_to_the_whole_flow(content_type: str, body: bytes) -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN, headers=BEARER) as client:
            answer = await client.post(
                f"{node.server.url}/flows/A/B/pause", content=body, headers={"Content-Type": content_type}
            )
        assert (answer.status_code, answer.json()) == (422, {"detail": NO_SUCH_BODY})
        assert node.commands.done == []


@pytest.mark.parametrize(
    ("authorization", "message"),
    [
        (None, "missing token: send the header Authorization: Bearer"),
        ("Basic b3BzOm9wZW4=", "missing token: send the header Authorization: Bearer"),
        ("Bearer", "wrong token: it must be"),
        (f"Bearer {TOKEN}x", "wrong token: it must be"),
        (f"Bearer {TOKEN[:-1]}", "wrong token: it must be"),
        ("Bearer größe", "wrong token: it must be"),
    ],
)
async def test_missing_or_wrong_token_is_rejected(authorization: str | None, message: str) -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        headers = [] if authorization is None else [(b"Authorization", authorization.encode())]
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as client:
            answer = await client.post(f"{node.server.url}/flows/A/C/refresh", headers=headers)
        assert answer.status_code == 401  # for any path: unauthenticated clients must not learn which flows exist
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="mm2"'
        assert message in answer.json()["detail"]
        assert node.commands.done == []


async def refresh_on(host: str, gate: AccessGate, *, bind: str) -> tuple[int, str]:
    """Send a refresh over plain HTTP to a node that leads nothing.

    An authorized request fails only because the flow is unknown.
    """
    async with Peers(PLAIN) as peers:
        server = RestServer(rest_app(rest_context(peers, gate)), bind)
        await server.start()
        try:
            async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN, headers=BEARER) as client:
                answer = await client.post(f"http://{host}:{server.port}/flows/A/B/refresh")
        finally:
            await server.stop()
    return answer.status_code, answer.json()["detail"]


@pytest.mark.parametrize(
    "gate",
    [AccessGate(enabled=False, token=TOKEN), AccessGate(enabled=True, token=None), AccessGate(enabled=True, token="")],
)
async def test_node_without_admin_rejects_commands(gate: AccessGate) -> None:
    code, detail = await refresh_on("127.0.0.1", gate, bind="127.0.0.1")
    assert code == 403
    assert "mm2.rest.admin = true" in detail


async def test_node_without_admin_rejects_forwarded_commands() -> None:
    body = b'{"command":"refresh"}'
    async with rest_nodes(["one"], admin=False) as (node,):
        node.stand(leads=True)
        with pytest.raises(PeerError, match=r"set mm2\.rest\.admin = true in the files of all nodes") as caught:
            await node.peers.ask(
                node.server.url,
                node.leader_context,
                PeerRequest(method="POST", path=("mm2", "commands"), body=body, token=TOKEN),
            )
        assert caught.value.status == 403
        assert node.commands.done == []
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=PLAIN) as client:
            page = (await client.get(f"{node.server.url}/docs")).text
        assert "/refresh" not in page


async def test_plain_http_commands_are_accepted_from_the_local_machine_only() -> None:
    gate = AccessGate(enabled=True, token=TOKEN)
    assert (await refresh_on("127.0.0.1", gate, bind=""))[0] == 404  # an IPv4 caller on a socket for both protocols
    outside = [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family.name == "AF_INET" and not address.address.startswith("127.")
    ]
    for address in outside:
        code, detail = await refresh_on(address, gate, bind="")
        assert code == 403
        assert "from the node's own machine only" in detail


def test_commands_in_the_api_description() -> None:
    gate = AccessGate(enabled=True, token=TOKEN)
    page = docs_page(rest_app(rest_context(Peers(PLAIN), gate)).openapi())
    for path in ("pause", "resume", "tasks/{task}/restart", "refresh"):
        assert f"POST /flows/{{source}}/{{target}}/{path}" in page
    assert "mm2/commands" not in page


async def test_commands_are_forwarded_over_https(tmp_path: Path) -> None:
    authority = Authority()
    settings = https_file(authority, tmp_path)
    tls, context = settings.listening.tls, node_context(settings)
    async with rest_nodes(["leader", "follower"], tls=tls, context=context) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        async with httpx.AsyncClient(
            timeout=30, trust_env=False, verify=caller_context(authority), headers=BEARER
        ) as client:
            answer = await client.post(f"{follower.server.url}/flows/A/B/refresh")
        assert (answer.status_code, leader.commands.done) == (202, [Refresh()])
