"""README.md followed literally: in a new clone, with an empty home directory and no development tools in PATH."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.docs import next_with, run_block, shell_blocks, write_blocks
from tests.lab.fixtures import StartCluster
from tests.lab.processes import LabProcess
from tests.lab.records import plain, write
from tests.lab.settings import ONE_COPY
from tests.lab.verify import wait_until_copied

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

STEP = 900.0  # seconds for one block: the first ones download several hundred megabytes
RUNS = 120.0  # seconds until the node has copied the first records
DRAINED = 60.0  # seconds until the node has drained and Spark is down

# Variables that describe the machine: proxies, certificates, package indexes, and the download cache.
OF_THE_MACHINE = re.compile(r"(?i)PIP_.*|UV_.*|.*_PROXY|.*CERT.*|.*CA_BUNDLE|.*CAINFO|JAVA_HOME|LANG|LC_.*|TMPDIR")


@pytest.fixture
def clean(tmp_path: Path) -> dict[str, str]:
    """The environment of a new user. The download cache is kept."""
    ours = str(ROOT / ".venv")
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if not part.startswith(ours))
    home = tmp_path / "home"
    home.mkdir()
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    kept = {name: value for name, value in os.environ.items() if OF_THE_MACHINE.fullmatch(name)}
    return {**kept, "PATH": path, "HOME": str(home), "XDG_CACHE_HOME": cache, "DEMO_SECONDS": "10"}


@pytest.fixture
def clone(tmp_path: Path, clean: Mapping[str, str]) -> Path:
    directory = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(directory)], env=dict(clean), check=True, timeout=STEP)
    return directory


def test_readme_literally(clone: Path, clean: Mapping[str, str], tmp_path: Path, start_cluster: StartCluster) -> None:
    blocks = iter(shell_blocks(clone / "README.md"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    assert "every record arrived" in output_of(next_with(blocks, "make demo"), clone, clean)
    assert "mm2 0." in output_of(next_with(blocks, "pip install"), clone, clean)
    assert development_tools(clone) & installed(clean) == set()

    assert write_blocks(clone / "README.md", elsewhere) == ["mm2.properties"]
    checked = output_of(next_with(blocks, "mm2 check"), elsewhere, clean)
    assert "error" not in checked
    assert "A->B" in checked

    source, target = start_cluster("source"), start_cluster("target")
    change_addresses(elsewhere / "mm2.properties", source, target)
    source.create_topic("payments", partitions=2)
    write(source.bootstrap, "payments", plain(500, partitions=2))
    node = LabProcess(
        "readme-node",
        ("sh", "-c", f"exec {next_with(blocks, 'mm2 run').strip()}"),
        tmp_path / "node.log",
        cwd=elsewhere,
        env=clean,
    )
    wait_until_copied((source.bootstrap, "payments"), (target.bootstrap, "A.payments"), timeout=RUNS)
    assert "RUNNING" in output_of("~/mm2/bin/mm2 status mm2.properties", elsewhere, clean)
    node.signal(signal.SIGTERM)
    assert node.wait(DRAINED, "the node drains") == 0

    output_of(next_with(blocks, "rm -r"), elsewhere, clean)
    assert list(Path(clean["HOME"]).glob("mm2")) == []
    assert list(blocks) == []


def output_of(commands: str, directory: Path, env: Mapping[str, str]) -> str:
    """Run the commands in a shell and return their output. All must succeed."""
    return run_block(f"exec 2>&1\n{commands}", directory, env, timeout=STEP)


def development_tools(clone: Path) -> set[str]:
    """Return the package names of the dev group in pyproject.toml."""
    group = tomllib.loads((clone / "pyproject.toml").read_text("utf-8"))["dependency-groups"]["dev"]
    return {re.split(r"[^\w.-]", requirement)[0] for requirement in group}


def installed(env: Mapping[str, str]) -> set[str]:
    """Return the package names of the production environment."""
    listed = {
        package["name"].lower() for package in json.loads(output_of("~/mm2/bin/pip list --format=json", ROOT, env))
    }
    assert {"mm2", "pyspark", "aiokafka"} <= listed
    return listed


def change_addresses(file: Path, source: KafkaCluster, target: KafkaCluster) -> None:
    """Set the addresses, as the README instructs, and a replication factor of 1."""
    text = re.sub(r"a1\.example\.com.*", source.bootstrap, file.read_text("utf-8"))
    text = re.sub(r"b1\.example\.com.*", target.bootstrap, text)
    file.write_text(text + "".join(f"{key} = {value}\n" for key, value in ONE_COPY.items()), "utf-8")
