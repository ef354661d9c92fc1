"""``mm2 pause`` and the others: from the command line over a real socket to a node's desk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from fastapi import FastAPI

from mm2.cli.commands import execute, mm2_app
from mm2.core.commands import Command, Pause, Refresh, RestartTask, Resume
from mm2.rest.server import RestServer
from tests.contract.certificates import https_file, node_context
from tests.contract.nodes import TOKEN, rest_nodes
from tests.contract.test_status_command import mm2 as mm2_process
from tests.lab.listeners import Authority

Said = tuple[int, str, str]
Mm2 = Callable[..., Awaitable[Said]]
FLOW = ("--flow", "A->B")


@pytest.fixture
def mm2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Mm2:
    """The command, beside the event loop that serves: exit code, output, complaints. ``token``: in the environment."""

    async def call(*words: str, token: str = TOKEN) -> Said:
        monkeypatch.setenv("MM2_REST_ADMIN_TOKEN", token)
        code = await asyncio.to_thread(execute, mm2_app(), words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("pause", "URL", *FLOW), Pause()),
        (("pause", "URL", "--flow", "A -> B", "--topic", "orders", "größe"), Pause(topics=("orders", "größe"))),
        (("resume", "URL", *FLOW, "--topic", "orders"), Resume(topics=("orders",))),
        (("restart", "URL", "MirrorSourceConnector-0", *FLOW), RestartTask(task="MirrorSourceConnector-0")),
        (("refresh", "URL", *FLOW), Refresh()),
    ],
)
async def test_a_command_through_a_follower(mm2: Mm2, words: tuple[str, ...], command: Command) -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        said = await mm2(*(follower.server.url if word == "URL" else word for word in words))
        assert said == (0, "A->B: it is done (node leader)\n", "")
        assert leader.desk.done == [command]


async def test_as_a_program() -> None:
    async with rest_nodes(["leader"]) as (leader,):
        leader.stand(leads=True)
        said = await mm2_process("refresh", leader.server.url, *FLOW, environment={"MM2_REST_ADMIN_TOKEN": TOKEN})
        assert said == (0, "A->B: it is done (node leader)\n", "")
        assert leader.desk.done == [Refresh()]


async def test_the_token_of_a_file(mm2: Mm2, tmp_path: Path) -> None:
    async with rest_nodes(["leader"]) as (leader,):
        leader.stand(leads=True)
        file = tmp_path / "mm2.properties"
        listeners = f"listeners = http://0.0.0.0:{leader.server.port}\nrest.advertised.host.name = mm2.example.org\n"
        file.write_text(f"{listeners}mm2.rest.admin = true\nmm2.rest.admin.token = {TOKEN}\n")
        assert (await mm2("refresh", str(file), *FLOW))[0] == 0
        file.write_text(listeners)
        code, _, err = await mm2("refresh", str(file), *FLOW)
        assert code == 2
        assert "does not say mm2.rest.admin = true" in err


@pytest.mark.parametrize(
    ("words", "token", "code", "sentence"),
    [
        (("refresh", "URL", *FLOW), "", 2, "set MM2_REST_ADMIN_TOKEN"),
        (("refresh", "URL", *FLOW), "x", 2, "refuses: this is not the node's"),
        (("refresh", "URL", "--flow", "A->C"), TOKEN, 2, "refuses: there is no flow A->C on this node"),
        (("refresh", "URL", "--flow", "A"), TOKEN, 2, "'A' is no flow: write --flow 'A->B', in quotes"),
        (("refresh", "URL"), TOKEN, 2, "--flow is missing"),
        (("restart", "URL", "MirrorSourceConnector-9", *FLOW), TOKEN, 2, "A->B has no task MirrorSourceConnector-9"),
        (("pause", "URL", *FLOW, "--topic", "secret"), TOKEN, 1, "topic secret is being made anew: try again"),
        (("pause", "URL", *FLOW, "--topic", ""), TOKEN, 2, "does not take such names: none may be empty"),
        (("pause", "URL", *FLOW, "--topic"), TOKEN, 2, "--topic needs at least one topic"),
    ],
)
async def test_refusals(mm2: Mm2, words: tuple[str, ...], token: str, code: int, sentence: str) -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        words = tuple(node.server.url if word == "URL" else word for word in words)
        returned, out, err = await mm2(*words, token=token)
        assert (returned, out) == (code, "")
        assert err.startswith(f"mm2 {words[0]}: ")
        assert sentence in err
        assert err.count("\n") == 1
        assert node.desk.done == []


async def test_a_node_that_takes_none(mm2: Mm2) -> None:
    async with rest_nodes(["one"], admin=False) as (node,):
        node.stand(leads=True)
        code, _, err = await mm2("refresh", node.server.url, *FLOW)
        assert code == 1
        assert "its file does not say mm2.rest.admin = true" in err


async def test_the_token_does_not_cross_a_network_in_plain_text(mm2: Mm2) -> None:
    code, _, err = await mm2("refresh", "http://mm2.example.org:8083", *FLOW)
    assert code == 2
    assert "the token would cross the network in plain text on the way to http://mm2.example.org:8083" in err


async def test_nobody_there_and_somebody_else(mm2: Mm2) -> None:
    code, _, err = await mm2("refresh", "http://127.0.0.1:1", *FLOW)
    assert (code, err.count("nothing listens there")) == (1, 1)
    server = RestServer(FastAPI())
    await server.start()
    try:
        code, _, err = await mm2("refresh", server.url, *FLOW)
    finally:
        await server.stop()
    assert code == 1
    assert "answers, but not as an mm2 node (POST /flows/A/B/refresh gave 404)" in err


async def test_over_https_by_a_file(mm2: Mm2, tmp_path: Path) -> None:
    authority = Authority()
    required = {"listeners.https.ssl.client.auth": "required", "mm2.rest.admin": "true", "mm2.rest.admin.token": TOKEN}
    settings = https_file(authority, tmp_path, required)
    async with rest_nodes(["one"], tls=settings.listening.tls, context=node_context(settings)) as (node,):
        node.stand(leads=True)
        text = settings.path.read_text().replace("127.0.0.1\\:0", f"127.0.0.1\\:{node.server.port}")
        settings.path.write_text(text)
        assert (await mm2("refresh", str(settings.path), *FLOW))[:2] == (0, "A->B: it is done (node one)\n")


async def test_status_asks_the_first_that_answers(mm2: Mm2, tmp_path: Path) -> None:
    async with rest_nodes(["one"]) as (node,):
        file = tmp_path / "mm2.properties"
        file.write_text(f"listeners = http://127.0.0.1:1, {node.server.url}\n")
        code, out, err = await mm2("status", str(file))
        assert (code, err) == (0, "")
        assert out.splitlines()[-1] == f"asked {node.server.url}"
        file.write_text("listeners = http://127.0.0.1:1, http://127.0.0.1:2\n")
        code, _, err = await mm2("status", str(file))
        assert (code, err.count("nothing listens there")) == (1, 2)
