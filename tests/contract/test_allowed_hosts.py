"""Names in the ``Host`` header: what ``mm2.rest.allowed.hosts`` of a file says is what the node's listener allows."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlsplit

import httpx
import pytest

from mm2.node.supervisor import Node
from mm2.program.serving import Serving
from tests.contract.nodes import recorded_losses, recorded_queries
from tests.contract.samples import node
from tests.unit.config import files

NODE = SimpleNamespace(
    leader_context=lambda _source, _target: None,
    carry_out=None,
    audit=None,
    losses=recorded_losses,
    query_histories=recorded_queries,
    story=None,
    translate=None,
    published=node(),
)
OTHERS = {"mm2.example.com": 421, "a.ops.example.com": 421, "evil.example": 421}


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ("", OTHERS),
        (
            "mm2.rest.allowed.hosts = MM2.example.com, *.ops.example.com\n",
            OTHERS | {"mm2.example.com": 200, "a.ops.example.com": 200},
        ),
        ("mm2.rest.allowed.hosts = *\n", dict.fromkeys(OTHERS, 200)),
    ],
    ids=["default", "names", "any"],
)
async def test_names_of_the_file_are_allowed(tmp_path: Path, allowed: str, expected: dict[str, int]) -> None:
    settings = files.settings(
        tmp_path, f"listeners = http://127.0.0.1:0\nrest.advertised.host.name = own.test\n{allowed}"
    )
    serving = Serving(settings, cast(Node, NODE))
    await serving.open()
    own = dict.fromkeys(("127.0.0.1", "localhost", "own.test", socket.gethostname()), 200)
    try:
        port = urlsplit(serving.url).port
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            answers = {
                host: await client.get("/flows", headers={"Host": f"{host}:{port}"}) for host in (*own, *expected)
            }
    finally:
        await serving.close()
    assert {host: answer.status_code for host, answer in answers.items()} == own | expected
    for host, answer in answers.items():
        if answer.status_code == 421:
            assert answer.json()["detail"].startswith(f"'{host}' is not a name of this node")
