from __future__ import annotations

from pathlib import Path

import httpx
import psutil
import pytest
from fastapi import FastAPI

from mm2.core.commands import Command, Pause, Refresh, RestartTask, Resume
from mm2.rest.admin import AdminGate
from mm2.rest.commands import command_router
from mm2.rest.docs_page import docs_page
from mm2.rest.peers import PeerError, PeerRequest, Peers
from mm2.rest.server import RestServer
from mm2.rest.signed_calls import NO_SUCH_BODY, add_refusals
from tests.contract.certificates import caller_context, https_file, node_context
from tests.contract.nodes import PLAIN, TOKEN, Desk, rest_nodes
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
    ],
)
async def test_any_node_takes_commands_for_the_leader(path: str, body: object, command: Command) -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        async with httpx.AsyncClient(trust_env=False, verify=PLAIN, headers=BEARER) as client:
            for node in (leader, follower):
                answer = await client.post(f"{node.server.url}/flows/A/B/{path}", json=body)
                assert answer.status_code == 202
                assert answer.json() == {
                    "flow": "A->B",
                    "command": command.command,
                    "node": "leader",
                    "effect": "it is done",
                }
        assert leader.desk.done == [command, command]
        assert follower.desk.done == []


async def test_refusals_are_sentences_from_every_node() -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        async with httpx.AsyncClient(trust_env=False, verify=PLAIN, headers=BEARER) as client:
            for node in (leader, follower):
                flows = f"{node.server.url}/flows"
                answer = await client.post(f"{flows}/A/C/pause")
                assert (answer.status_code, answer.json()) == (404, {"detail": "there is no flow A->C on this node"})
                answer = await client.post(f"{flows}/A/B/tasks/MirrorSourceConnector-9/restart")
                detail = "A->B has no task MirrorSourceConnector-9"
                assert (answer.status_code, answer.json()) == (404, {"detail": detail})
                answer = await client.post(f"{flows}/A/B/pause", json={"topics": ["secret"]})
                detail = "topic secret is being made anew: try again in a minute"
                assert (answer.status_code, answer.json()) == (409, {"detail": detail})
                assert (await client.post(f"{flows}/A/B/pause", json={"topics": [""]})).status_code == 422
                assert (await client.get(f"{flows}/A/B/pause")).status_code == 405
        assert leader.desk.done == []


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
async def test_a_body_that_is_not_understood_never_means_the_whole_flow(content_type: str, body: bytes) -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        async with httpx.AsyncClient(trust_env=False, verify=PLAIN, headers=BEARER) as client:
            answer = await client.post(
                f"{node.server.url}/flows/A/B/pause", content=body, headers={"Content-Type": content_type}
            )
        assert (answer.status_code, answer.json()) == (422, {"detail": NO_SUCH_BODY})
        assert node.desk.done == []


@pytest.mark.parametrize(
    ("authorization", "sentence"),
    [
        (None, "commands need Authorization: Bearer"),
        ("Basic b3BzOm9wZW4=", "commands need Authorization: Bearer"),
        ("Bearer", "is not the node's"),
        (f"Bearer {TOKEN}x", "is not the node's"),
        (f"Bearer {TOKEN[:-1]}", "is not the node's"),
        ("Bearer größe", "is not the node's"),
    ],
)
async def test_who_has_no_token(authorization: str | None, sentence: str) -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        headers = [] if authorization is None else [(b"Authorization", authorization.encode())]
        async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
            answer = await client.post(f"{node.server.url}/flows/A/C/refresh", headers=headers)
        assert answer.status_code == 401  # whatever is asked for: strangers do not learn which flows there are
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="mm2"'
        assert sentence in answer.json()["detail"]
        assert node.desk.done == []


async def refresh_on(host: str, gate: AdminGate, *, bind: str) -> tuple[int, str]:
    """Ask a node that leads nothing, over plain http: who comes past the gate hears that there is no flow."""
    app = FastAPI(openapi_url=None)
    add_refusals(app)
    async with Peers(PLAIN) as peers:
        app.include_router(command_router(Desk("one"), lambda _source, _target: None, peers, gate))
        server = RestServer(app, bind)
        await server.start()
        try:
            async with httpx.AsyncClient(trust_env=False, verify=PLAIN, headers=BEARER) as client:
                answer = await client.post(f"http://{host}:{server.port}/flows/A/B/refresh")
        finally:
            await server.stop()
    return answer.status_code, answer.json()["detail"]


@pytest.mark.parametrize(
    "gate",
    [AdminGate(enabled=False, token=TOKEN), AdminGate(enabled=True, token=None), AdminGate(enabled=True, token="")],
)
async def test_a_node_that_takes_no_commands(gate: AdminGate) -> None:
    code, detail = await refresh_on("127.0.0.1", gate, bind="127.0.0.1")
    assert code == 403
    assert "mm2.rest.admin = true" in detail


async def test_a_node_that_takes_no_commands_takes_none_from_others_either() -> None:
    body = b'{"command":"refresh"}'
    async with rest_nodes(["one"], admin=False) as (node,):
        node.stand(leads=True)
        with pytest.raises(PeerError, match=r"let the files of all nodes of the flow say mm2\.rest\.admin") as refused:
            await node.peers.ask(
                node.server.url, node.standing, PeerRequest(method="POST", path=("mm2", "commands"), body=body)
            )
        assert refused.value.status == 403
        assert node.desk.done == []
        async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
            page = (await client.get(f"{node.server.url}/docs")).text
        assert "/refresh" not in page


async def test_plain_http_is_for_the_nodes_own_machine() -> None:
    gate = AdminGate(enabled=True, token=TOKEN)
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
        assert "over https or from the node's own machine only" in detail


def test_commands_on_the_page_of_the_interface() -> None:
    app = FastAPI()
    gate = AdminGate(enabled=True, token=TOKEN)
    app.include_router(command_router(Desk("one"), lambda _source, _target: None, Peers(PLAIN), gate))
    page = docs_page(app.openapi())
    for path in ("pause", "resume", "tasks/{task}/restart", "refresh"):
        assert f"POST /flows/{{source}}/{{target}}/{path}" in page
    assert "mm2/commands" not in page


async def test_commands_over_https(tmp_path: Path) -> None:
    authority = Authority()
    settings = https_file(authority, tmp_path)
    tls, context = settings.listening.tls, node_context(settings)
    async with rest_nodes(["leader", "follower"], tls=tls, context=context) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        async with httpx.AsyncClient(trust_env=False, verify=caller_context(authority), headers=BEARER) as client:
            answer = await client.post(f"{follower.server.url}/flows/A/B/refresh")
        assert (answer.status_code, leader.desk.done) == (202, [Refresh()])
