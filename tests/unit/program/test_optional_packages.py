"""A node starts without the packages that only some users install."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_GSSAPI = """
import sys
sys.modules["gssapi"] = None  # import gssapi raises ImportError
import flows.lane.lane_runner
import mm2.cli.run.run
import mm2.client
import mm2.mirror1.process
import mm2.program.node_program
"""


def test_everything_that_starts_can_be_imported_without_gssapi() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_GSSAPI], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
