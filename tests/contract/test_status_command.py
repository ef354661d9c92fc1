from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from mm2.core.lanes.task_states import TaskState
from mm2.node.status.status_model import NodeStatus
from mm2.rest.server.server import RestServer
from tests.contract.conftest import Serve
from tests.contract.samples import flow, heartbeat_flow, node, partition, topic, unheard
from tests.lab.commands import run_here
from tests.lab.waiting import GaveUp
from tests.lab.waiting import until as eventually  # a test below has a parameter of that name

MM2 = (sys.executable, "-c", "from mm2.app import main; main()")
DEADLINE_S = 60  # long, because two cores can be busy


async def mm2(*args: str, environment: dict[str, str] | None = None) -> tuple[int | None, str, str]:
    """Run the command in a thread beside the serving event loop; return its exit code, output and error output."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            outcome = await asyncio.to_thread(run_here, *args, env=environment)
    except TimeoutError:
        raise GaveUp(f"not within {DEADLINE_S} s: mm2 {' '.join(args)} ends") from None
    return outcome.code, outcome.stdout, outcome.stderr


async def mm2_process(*args: str) -> tuple[int | None, str, str]:
    """Run the command as users do, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *MM2, *args, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise GaveUp(f"not within {DEADLINE_S} s: mm2 {' '.join(args)} ends") from None
    return process.returncode, out.decode(), err.decode()


async def test_status_with_a_url(serve: Serve) -> None:
    url = str((await serve(node())).base_url)
    code, out, err = await mm2_process("status", url)
    assert (code, err) == (0, "")
    assert "A->B  RUNNING  leader node-1  epoch 7" in out
    assert "\x1b" not in out


async def test_status_of_a_part(serve: Serve) -> None:
    failed = topic("users", partition(3, state=TaskState.FAILED, error="offset 17: too large"), state=TaskState.FAILED)
    url = str((await serve(node(flow(topic("orders"), failed, state=TaskState.FAILED), heartbeat_flow()))).base_url)
    code, out, err = await mm2("status", url, "--problems")
    assert (code, err) == (0, "")
    assert "topic users partition 3: offset 17: too large" in out
    assert "orders" not in out
    assert "B->A" not in out
    code, out, _ = await mm2("status", url, "--flow", "A -> B", "--topic", "orders", "--json")
    ((one,),) = [[topic["topic"] for topic in flow["topics"]] for flow in json.loads(out)]
    assert (code, one) == (0, "orders")
    assert await mm2("status", url, "--flow", "B->A", "--problems") == (0, "no problems\n", "")
    assert (await mm2("status", url, "--topic", "order"))[0] == 2


async def test_exit_code_of_lag_is_1_if_a_lag_is_unknown(serve: Serve) -> None:
    """Of what was asked for: scripts wait for a lag of 0 before a planned move."""
    known = topic("orders", partition(lag_records=0, lag_seconds=0.0))
    url = str((await serve(node(flow(known, topic("users", unheard(), partition(1)))))).base_url)
    code, out, err = await mm2("lag", url, "--json")
    assert (code, err) == (1, "")
    (whole,) = json.loads(out)["flows"]
    assert (whole["lag_records"], whole["outlook"], whole["unknown_partitions"]) == (None, "unknown", 1)
    assert (await mm2("lag", url, "--topic", "orders"))[0] == 0


async def test_lag_of_a_flow_whose_topics_are_not_known(serve: Serve) -> None:
    waiting = flow(topics=(), state=TaskState.WAITING, reasons=("cluster B is unreachable",))
    url = str((await serve(node(waiting))).base_url)
    assert (await mm2("lag", url))[0] == 1
    code, _, err = await mm2("lag", url, "--topic", "orders")
    assert (code, err) == (
        1,
        "mm2 lag: cannot tell whether topic orders is replicated: A->B is WAITING and its topics are not known:"
        " cluster B is unreachable\n",
    )


async def test_status_and_lag_with_a_file(serve: Serve, tmp_path: Path) -> None:
    port = (await serve(node())).base_url.port
    file = tmp_path / "mm2.properties"
    file.write_text(f"listeners = http://0.0.0.0:{port}\n")
    assert (await mm2("status", str(file)))[0] == 0
    code, out, _ = await mm2("lag", str(file))
    assert code == 0
    flow, partition = out.splitlines()[1].split(), out.splitlines()[4].split()
    assert flow == ["A->B", "RUNNING", "standing", "still", "10", "1.5", "0", "1", "0"]
    assert partition == ["A->B", "orders", "0", "RUNNING", "10", "1.5", "0", "90", "100"]


async def test_json_is_the_unmodified_response(serve: Serve) -> None:
    client = await serve(node())
    code, out, _ = await mm2("status", str(client.base_url), "--json")
    assert code == 0
    assert json.loads(out) == (await client.get("/flows")).json()


class Copying:
    """A node whose flow copies 100 records per second from a backlog of 10,000."""

    def __init__(self) -> None:
        self._began: float | None = None

    def __call__(self) -> NodeStatus:
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        position = int(100 * (now - self._began))
        return node(
            flow(topic("orders", partition(position=position, end_offset=10_000, lag_records=10_000 - position)))
        )


async def test_lag_shows_rate_and_remaining_time(serve: Serve) -> None:
    client = await serve(Copying())

    async def undisturbed() -> Any:
        """Return the flow, or None if a busy core delayed one of the two responses that the rate is computed from."""
        code, out, err = await mm2("lag", str(client.base_url), "--json")
        assert (code, err) == (0, "")
        (shown,) = json.loads(out)["flows"]
        return shown if shown["records_per_second"] == pytest.approx(100, rel=0.2) else None

    shown = await eventually(undisturbed, DEADLINE_S, "the rate is 100 records per second")
    assert shown["catch_up_seconds"] == pytest.approx(shown["lag_records"] / shown["records_per_second"])
    assert (shown["flow"], shown["outlook"], shown["caught_up"]) == ("A->B", "catching up", 0)
    assert shown["partitions"][0]["records_per_second"] == shown["records_per_second"]


async def test_topics_with_a_url(serve: Serve) -> None:
    url = str((await serve(node())).base_url)
    code, out, _ = await mm2("topics", url, "--flow", "A->B")
    assert code == 0
    assert out.splitlines()[0] == "A->B  RUNNING  1 topic"
    assert out.splitlines()[2].split() == ["orders", "A.orders", "1", "-", "RUNNING"]


async def test_proxy_settings_of_the_environment_are_ignored(serve: Serve) -> None:
    proxy = {"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"}
    assert (await mm2("status", str((await serve(node())).base_url), environment=proxy))[0] == 0


async def test_unreachable_node_is_one_error_line_and_exit_1() -> None:
    code, out, err = await mm2("status", "http://127.0.0.1:1")
    assert (code, out) == (1, "")
    assert err.startswith("mm2 status: http://127.0.0.1:1 is not reachable: connection refused.")
    assert err.count("\n") == 1


async def test_another_program_is_one_error_line_and_exit_1() -> None:
    other = FastAPI()

    @other.get("/elsewhere")
    def elsewhere() -> str:
        return ""

    server = RestServer(other)
    await server.start()
    try:
        code, _, err = await mm2("lag", server.url)
    finally:
        await server.stop()
    assert code == 1
    assert err == f"mm2 lag: {server.url} is not an mm2 node (GET /flows returned 404): check the port\n"


def restore_sigint() -> None:
    """Restore the default SIGINT handler: background processes inherit that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("command", "until"), [("status", b"A->B"), ("lag", b"caught up in about")])
async def test_watch_refreshes_until_ctrl_c(serve: Serve, command: str, until: bytes) -> None:
    """The heading appears twice; lag also shows values that need two samples."""
    url = str((await serve(Copying())).base_url)
    process = await asyncio.create_subprocess_exec(
        *MM2,
        command,
        url,
        "--watch",
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=restore_sigint,
    )
    assert process.stdout is not None
    seen = 0
    async with asyncio.timeout(DEADLINE_S):
        while seen < 2:
            seen += until in await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        await process.stdout.read()
        assert await process.wait() == 0


async def test_closed_output_pipe_is_not_an_error(serve: Serve) -> None:
    url = str((await serve(node())).base_url)
    command = f"{sys.executable} -c 'from mm2.app import main; main()' status {url} | true"
    process = await asyncio.create_subprocess_shell(command, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(DEADLINE_S):
        _, err = await process.communicate()
    assert err == b""
