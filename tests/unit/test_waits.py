"""The rule of `make lint` that tests wait with tests.lab.waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint import waits

FILE = "tests/unit/test_some.py"


def found(root: Path, code: str, paced: dict[str, dict[str, str]] | None = None) -> list[str]:
    path = root / FILE
    path.parent.mkdir(parents=True)
    path.write_text(f"import asyncio\nimport time\n\n{code}")
    return list(waits.findings(root, paced or {}))


@pytest.mark.parametrize(
    "code",
    [
        "def test():\n    while not there():\n        time.sleep(0.1)\n",
        "async def test():\n    while not there():\n        await asyncio.sleep(0)\n",
        "async def test():\n    for _ in range(9):\n        if x:\n            break\n        await asyncio.sleep(1)\n",
        "def test():\n    while True:\n        if there():\n            return\n        time.sleep(0.1)\n",
        "def test():\n    for x in y:\n        with x:\n            while late():\n                time.sleep(1)\n",
    ],
)
def test_loops_that_wait_are_found(code: str, tmp_path: Path) -> None:
    (line,) = found(tmp_path, code)
    assert line.startswith(f"{FILE}:{4 + code[: code.index('sleep(')].count(chr(10))}: test: ")


@pytest.mark.parametrize(
    "code",
    [
        "def test():\n    time.sleep(0.1)\n",
        "def test():\n    for _ in range(2):\n        write()\n        time.sleep(0.2)\n",
        "async def test():\n    for _ in range(5):\n        await asyncio.sleep(0)\n        if x:\n            break\n",
        "def test():\n    while there():\n        calls(lambda: time.sleep(1))\n",
        "async def serve():\n    while True:\n        await asyncio.sleep(1)\n        print()\n",
    ],
)
def test_other_sleeps_are_not_found(code: str, tmp_path: Path) -> None:
    assert found(tmp_path, code) == []


def test_loops_that_are_listed_are_left_out_and_entries_do_not_grow_old(tmp_path: Path) -> None:
    code = "def load():\n    while busy():\n        time.sleep(0.1)\n"
    assert found(tmp_path, code, {FILE: {"load": "a rate", "gone": "a rate"}}) == [
        f"{FILE}: gone: has no loop that sleeps: remove it from PACED of tests/lint/waits.py"
    ]
