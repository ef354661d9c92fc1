"""``mm2 pause`` and related commands: from the command line over a real socket to the node."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from io import StringIO
from pathlib import Path

import pytest
from fastapi import FastAPI

from mm2.cli.commands import execute, mm2_app
from mm2.core.coordination.commands import Command
from mm2.node.commands.accept_loss import AcceptLoss
from mm2.node.commands.copy_again import CopyAgain
from mm2.node.commands.pause import Pause
from mm2.node.commands.refresh import Refresh
from mm2.node.commands.restart import RestartTask
from mm2.node.commands.resume import Resume
from mm2.rest.server.server import RestServer
from tests.contract.certificates import https_file, node_context
from tests.contract.nodes import TOKEN, rest_nodes
from tests.contract.test_status_command import mm2 as mm2_process
from tests.lab.listeners import Authority

CommandResult = tuple[int, str, str]
Mm2 = Callable[..., Awaitable[CommandResult]]
FLOW = ("--flow", "A->B")
LOST = ("--topic", "orders", "--partition", "9")
AGAIN = (*FLOW, "--topic", "orders")


@pytest.fixture
def mm2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Mm2:
    """Run the command in a thread next to the serving event loop; return its exit code, output and error output.

    ``token``: passed in the environment.
    """

    async def call(*args: str, token: str = TOKEN) -> CommandResult:
        monkeypatch.setenv("MM2_REST_ADMIN_TOKEN", token)
        code = await asyncio.to_thread(execute, mm2_app(), args)
        result = capsys.readouterr()
        return code, result.out, result.err

    return call


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (("pause", "URL", *FLOW), Pause()),
        (("pause", "URL", "--flow", "A -> B", "--topic", "orders", "größe"), Pause(topics=("orders", "größe"))),
        (("resume", "URL", *FLOW, "--topic", "orders"), Resume(topics=("orders",))),
        (("restart", "URL", "MirrorSourceConnector-0", *FLOW), RestartTask(task="MirrorSourceConnector-0")),
        (("refresh", "URL", *FLOW), Refresh()),
        (
            ("accept-loss", "URL", *FLOW, "--topic", "größe", "--partition", "7"),
            AcceptLoss(topic="größe", partition=7),
        ),
        (
            ("accept-loss", "URL", "--topic", "orders", "--partition", "0", "--reason", "ticket 4711"),
            AcceptLoss(topic="orders", partition=0),
        ),
        (("accept-loss", "URL", "--topic", "orders"), AcceptLoss(topic="orders")),
        (("accept-loss", "URL", *FLOW), AcceptLoss()),
        (("copy-again", "URL", *AGAIN, "--yes"), CopyAgain(topic="orders", yes=True)),
        (("copy-again", "URL", *AGAIN, "--from", "earliest", "--yes"), CopyAgain(topic="orders", yes=True)),
        (
            ("copy-again", "URL", *AGAIN, "--partition", "2", "--from", "1042", "--yes", "--reason", "CHG-1"),
            CopyAgain(topic="orders", partition=2, offset=1042, yes=True),
        ),
        (
            ("copy-again", "URL", *AGAIN, "--from", "1970-01-01T01:00:01+01:00", "--yes"),
            CopyAgain(topic="orders", time=1000, yes=True),
        ),
    ],
)
async def test_command_sent_to_a_follower(mm2: Mm2, args: tuple[str, ...], command: Command) -> None:
    async with rest_nodes(["leader", "follower"]) as (leader, follower):
        leader.stand(leads=True)
        follower.stand(leader=leader)
        result = await mm2(*(follower.server.url if word == "URL" else word for word in args))
        assert result == (0, "A->B: it is done (node leader)\n", "")
        assert leader.commands.done == [command]


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
async def test_copying_again_asks_first(mm2: Mm2, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    async with rest_nodes(["leader"]) as (leader,):
        leader.stand(leads=True)
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        code, out, err = await mm2("copy-again", leader.server.url, *AGAIN)
        assert (code, out, err) == (0, 2 * "A->B: it is done (node leader)\n", "Copy again? [y/N] ")
        assert leader.commands.done == [CopyAgain(topic="orders", dry_run=True), CopyAgain(topic="orders")]


@pytest.mark.parametrize("answer", ["\n", "n\n", ""])
async def test_nothing_is_copied_again_without_a_yes(mm2: Mm2, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    async with rest_nodes(["leader"]) as (leader,):
        leader.stand(leads=True)
        monkeypatch.setattr(sys, "stdin", Terminal(answer))
        code, _, err = await mm2("copy-again", leader.server.url, *AGAIN)
        assert (code, err) == (1, "Copy again? [y/N] nothing was changed\n")
        assert leader.commands.done == [CopyAgain(topic="orders", dry_run=True)]


async def test_without_a_terminal_it_needs_a_confirmation(mm2: Mm2, monkeypatch: pytest.MonkeyPatch) -> None:
    async with rest_nodes(["leader"]) as (leader,):
        leader.stand(leads=True)
        monkeypatch.setattr(sys, "stdin", StringIO("y\n"))
        code, out, err = await mm2("copy-again", leader.server.url, *AGAIN)
        assert (code, out) == (2, "A->B: it is done (node leader)\n")
        assert err == "mm2 copy-again: nothing was changed: standard input is no terminal, so confirm with --yes\n"
        assert leader.commands.done == [CopyAgain(topic="orders", dry_run=True)]


class Terminal(StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


async def test_command_in_a_separate_process() -> None:
    async with rest_nodes(["leader"]) as (leader,):
        leader.stand(leads=True)
        result = await mm2_process("refresh", leader.server.url, *FLOW, environment={"MM2_REST_ADMIN_TOKEN": TOKEN})
        assert result == (0, "A->B: it is done (node leader)\n", "")
        assert leader.commands.done == [Refresh()]


async def test_token_is_read_from_the_file(mm2: Mm2, tmp_path: Path) -> None:
    async with rest_nodes(["leader"]) as (leader,):
        leader.stand(leads=True)
        file = tmp_path / "mm2.properties"
        listeners = f"listeners = http://0.0.0.0:{leader.server.port}\nrest.advertised.host.name = mm2.example.org\n"
        file.write_text(f"{listeners}mm2.rest.admin = true\nmm2.rest.admin.token = {TOKEN}\n")
        assert (await mm2("refresh", str(file), *FLOW))[0] == 0
        file.write_text(listeners)
        code, _, err = await mm2("refresh", str(file), *FLOW)
        assert code == 2
        assert "does not set mm2.rest.admin = true" in err


@pytest.mark.parametrize(
    ("args", "token", "code", "message"),
    [
        (("refresh", "URL", *FLOW), "", 2, "set MM2_TOKEN to yours, or MM2_REST_ADMIN_TOKEN"),
        (("refresh", "URL", *FLOW), "x", 2, "rejected the command: wrong token"),
        (("refresh", "URL", "--flow", "A->C"), TOKEN, 2, "rejected the command: no flow A->C on this node"),
        (("refresh", "URL", "--flow", "A"), TOKEN, 2, "'A' is not a flow: write --flow 'A->B', in quotes"),
        (("refresh", "URL"), TOKEN, 2, "--flow is missing"),
        (("restart", "URL", "MirrorSourceConnector-9", *FLOW), TOKEN, 2, "A->B has no task MirrorSourceConnector-9"),
        (("pause", "URL", *FLOW, "--topic", "secret"), TOKEN, 1, "topic secret is being recreated: try again"),
        (("pause", "URL", *FLOW, "--topic", ""), TOKEN, 2, "invalid topic names: they must not be empty"),
        (("pause", "URL", *FLOW, "--topic"), TOKEN, 2, "--topic needs at least one topic"),
        (("accept-loss", "URL", *LOST), TOKEN, 2, "no loss of topic orders partition 9 waits for acceptance"),
        (("accept-loss", "URL", "--topic", "t", "--partition", "one"), TOKEN, 2, "is not a partition number"),
        (("accept-loss", "URL", "--partition", "0"), TOKEN, 2, "--partition needs --topic"),
        (("copy-again", "URL", *FLOW), TOKEN, 2, "--topic is missing"),
        (("copy-again", "URL", *AGAIN, "--partition", "one"), TOKEN, 2, "is not a partition number"),
        (("copy-again", "URL", *AGAIN, "--from", "latest"), TOKEN, 2, "nothing is copied again from the end"),
        (("copy-again", "URL", *AGAIN, "--from", "-5"), TOKEN, 2, "--from"),
        (("copy-again", "URL", *AGAIN, "--from", "yesterday"), TOKEN, 2, "or a time such as 2026-11-01T00:00:00Z, or"),
        (("copy-again", "URL", *AGAIN, "--from", "2026-11-01"), TOKEN, 2, "must be a time with a time zone"),
    ],
)
async def test_rejected_commands(mm2: Mm2, args: tuple[str, ...], token: str, code: int, message: str) -> None:
    async with rest_nodes(["one"]) as (node,):
        node.stand(leads=True)
        args = tuple(node.server.url if word == "URL" else word for word in args)
        returned, out, err = await mm2(*args, token=token)
        assert (returned, out) == (code, "")
        assert err.startswith(f"mm2 {args[0]}: ")
        assert message in err
        assert err.count("\n") == 1
        assert node.commands.done == []


async def test_node_without_admin_rejects_commands(mm2: Mm2) -> None:
    async with rest_nodes(["one"], admin=False) as (node,):
        node.stand(leads=True)
        code, _, err = await mm2("refresh", node.server.url, *FLOW)
        assert code == 1
        assert "set mm2.rest.admin = true in its file" in err


async def test_token_is_not_sent_unencrypted_to_other_machines(mm2: Mm2) -> None:
    code, _, err = await mm2("refresh", "http://mm2.example.org:8083", *FLOW)
    assert code == 2
    assert "the token would be sent unencrypted to http://mm2.example.org:8083" in err


async def test_no_listener_and_another_program(mm2: Mm2) -> None:
    code, _, err = await mm2("refresh", "http://127.0.0.1:1", *FLOW)
    assert (code, err.count("connection refused")) == (1, 1)
    server = RestServer(FastAPI())
    await server.start()
    try:
        code, _, err = await mm2("refresh", server.url, *FLOW)
    finally:
        await server.stop()
    assert code == 1
    assert "is not an mm2 node (POST /flows/A/B/refresh returned 404)" in err


async def test_https_settings_are_read_from_the_file(mm2: Mm2, tmp_path: Path) -> None:
    authority = Authority()
    required = {"listeners.https.ssl.client.auth": "required", "mm2.rest.admin": "true", "mm2.rest.admin.token": TOKEN}
    settings = https_file(authority, tmp_path, required)
    async with rest_nodes(["one"], tls=settings.listening.tls, context=node_context(settings)) as (node,):
        node.stand(leads=True)
        text = settings.path.read_text().replace("127.0.0.1\\:0", f"127.0.0.1\\:{node.server.port}")
        settings.path.write_text(text)
        assert (await mm2("refresh", str(settings.path), *FLOW))[:2] == (0, "A->B: it is done (node one)\n")


async def test_status_uses_the_first_listener_that_answers(mm2: Mm2, tmp_path: Path) -> None:
    async with rest_nodes(["one"]) as (node,):
        file = tmp_path / "mm2.properties"
        file.write_text(f"listeners = http://127.0.0.1:1, {node.server.url}\n")
        code, out, err = await mm2("status", str(file))
        assert (code, err) == (0, "")
        assert out.splitlines()[-1] == f"from {node.server.url}"
        file.write_text("listeners = http://127.0.0.1:1, http://127.0.0.1:2\n")
        code, _, err = await mm2("status", str(file))
        assert (code, err.count("connection refused")) == (1, 2)
