"""The node ID: the same after a restart if the file determines it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mm2.program.addresses import node_id
from tests.unit.config import files

HOST = socket.gethostname()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("mm2.node.id = paris-1\nlisteners = http://:8083\n", "paris-1"),
        ("", f"{HOST}:{os.getpid()}"),
        ("listeners = http://:0\n", f"{HOST}:{os.getpid()}"),
        ("listeners = http://0.0.0.0:8083\n", f"{HOST}:8083"),
        ("listeners = http://localhost:8083\n", f"{HOST}:8083"),
        ("listeners = http://10.0.0.7:8083\n", "10.0.0.7:8083"),
        ("listeners = http://:0, http://10.0.0.7:8084\n", "10.0.0.7:8084"),
        (
            "listeners = http://10.0.0.7:8083\nrest.advertised.host.name = mm2.example.org\n"
            "rest.advertised.port = 80\n",
            "mm2.example.org:80",
        ),
    ],
    # IDs without process-specific values: all workers of a parallel run must collect the same test names.
    ids=["given", "no listener", "any port", "every address", "loopback", "an address", "the second", "advertised"],
)
def test_node_id(tmp_path: Path, lines: str, expected: str) -> None:
    assert node_id(files.settings(tmp_path, lines)) == expected
