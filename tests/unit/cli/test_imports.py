"""Commands start fast: modules that they must not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NODE = ("aiokafka", "asyncio", "fastapi", "flows", "kazoo", "mm2.node", "mm2.program", "prometheus_client", "pyspark")
NETWORK = ("anyio", "httpx", "starlette", "uvicorn")
NOT_FOR_FILES = (*NODE, *NETWORK, "click", "pandas", "pydantic_settings", "rich", "sqlglot")
"""Not needed to check a file. Each takes 20 to 400 ms of CPU."""
NOT_FOR_HELP = (*NOT_FOR_FILES, "mm2.config", "pydantic", "regex")
NOT_FOR_STATUS = (
    "aiokafka",
    "fastapi",
    "flows",
    "kazoo",
    "pandas",
    "pydantic_settings",
    "pyspark",
    "uvicorn",
)

BAD = "clusters = A, B\n"
GOOD = (
    "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\nA->B.enabled = true\n"
    "listeners = http://127.0.0.1:1\n"
)

CALLS: dict[str, tuple[int, tuple[str, ...]]] = {
    "--help": (0, NOT_FOR_HELP),
    "--version": (0, NOT_FOR_HELP),
    "check --help": (0, NOT_FOR_HELP),
    "status --help": (0, NOT_FOR_HELP),
    "run --help": (0, NOT_FOR_HELP),
    "check GOOD": (0, NOT_FOR_FILES),
    "check BAD": (2, NOT_FOR_FILES),
    "explain GOOD": (0, NOT_FOR_FILES),
    "run BAD": (2, NOT_FOR_FILES),
    "run no-such-file": (2, NOT_FOR_FILES),
    "status GOOD": (1, NOT_FOR_STATUS),
    "lag http://127.0.0.1:1": (1, NOT_FOR_STATUS),
}

CALLS |= {
    "migrate-mm1 --help": (0, NOT_FOR_HELP),
    "migrate-mm1 --consumer.config CONSUMER --producer.config PRODUCER --include a": (0, NOT_FOR_FILES),
}

PROGRAM = """\
import sys
from mm2.app import main
try:
    main()
finally:
    print(*sys.modules, file=open("modules", "w"))
"""


@pytest.mark.parametrize(("call", "expected"), CALLS.items(), ids=CALLS)
def test_a_command_imports_only_what_it_needs(call: str, expected: tuple[int, tuple[str, ...]], tmp_path: Path) -> None:
    exit_code, forbidden = expected
    (tmp_path / "BAD").write_text(BAD)
    (tmp_path / "GOOD").write_text(GOOD)
    (tmp_path / "CONSUMER").write_text("bootstrap.servers=127.0.0.1:1\ngroup.id=g\n")
    (tmp_path / "PRODUCER").write_text("bootstrap.servers=127.0.0.1:2\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *call.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == exit_code, done.stderr
    assert set((tmp_path / "modules").read_text().split()).isdisjoint(forbidden)


START = """\
import gc
import sys
from mm2.app import main
assert not gc.isenabled()
sys.argv[1:] = ["version"]
try:
    main()
except SystemExit:
    print(gc.isenabled(), gc.get_freeze_count() > 0)
"""


def test_the_collector_is_paused_only_for_imports() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.endswith("\nTrue True\n"), done.stderr
