from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from fastapi import FastAPI

from mm2.rest.server import RestServer
from tests.contract.conftest import Serve
from tests.contract.samples import node

MM2 = (sys.executable, "-c", "from mm2.app import main; main()")
DEADLINE_S = 60  # two busy cores


async def mm2(*words: str, environment: dict[str, str] | None = None) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *MM2,
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | (environment or {}),
    )
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_status_of_a_url(serve: Serve) -> None:
    url = str((await serve(node())).base_url)
    code, out, err = await mm2("status", url)
    assert (code, err) == (0, "")
    assert "A->B  RUNNING  leader node-1  epoch 7" in out
    assert "\x1b" not in out


async def test_status_and_lag_of_a_file(serve: Serve, tmp_path: Path) -> None:
    port = (await serve(node())).base_url.port
    file = tmp_path / "mm2.properties"
    file.write_text(f"listeners = http://0.0.0.0:{port}\n")
    assert (await mm2("status", str(file)))[0] == 0
    code, out, _ = await mm2("lag", str(file))
    assert code == 0
    assert out.splitlines()[1].split() == ["A->B", "orders", "0", "90", "100", "10", "1.5", "RUNNING"]


async def test_json_is_the_answer_itself(serve: Serve) -> None:
    client = await serve(node())
    code, out, _ = await mm2("status", str(client.base_url), "--json")
    assert code == 0
    assert json.loads(out) == (await client.get("/flows")).json()


async def test_proxies_of_the_environment_are_not_asked(serve: Serve) -> None:
    proxy = {"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"}
    assert (await mm2("status", str((await serve(node())).base_url), environment=proxy))[0] == 0


async def test_nobody_there_is_one_sentence_and_exit_1() -> None:
    code, out, err = await mm2("status", "http://127.0.0.1:1")
    assert (code, out) == (1, "")
    assert err.startswith("mm2 status: http://127.0.0.1:1 is not reachable: nothing listens there.")
    assert err.count("\n") == 1


async def test_another_program_is_one_sentence_and_exit_1() -> None:
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
    assert err == f"mm2 lag: {server.url} answers, but not as an mm2 node (GET /flows gave 404): is that its port?\n"


def heed_ctrl_c() -> None:
    """As in a terminal: tests that run in the background inherit that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def test_watch_shows_it_again_and_ends_with_ctrl_c(serve: Serve) -> None:
    url = str((await serve(node())).base_url)
    process = await asyncio.create_subprocess_exec(
        *MM2,
        "status",
        url,
        "--watch",
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=heed_ctrl_c,
    )
    assert process.stdout is not None
    headings = 0
    async with asyncio.timeout(DEADLINE_S):
        while headings < 2:
            headings += (await process.stdout.readline()).startswith(b"A->B")
        process.send_signal(signal.SIGINT)
        await process.stdout.read()
        assert await process.wait() == 0


async def test_a_reader_that_stops_early_is_no_trouble(serve: Serve) -> None:
    url = str((await serve(node())).base_url)
    command = f"{sys.executable} -c 'from mm2.app import main; main()' lag {url} | true"
    process = await asyncio.create_subprocess_shell(command, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(DEADLINE_S):
        _, err = await process.communicate()
    assert err == b""
