"""A broker's formatted storage, without a second JVM at every start.

What `kafka-storage format` leaves behind is ``meta.properties``, four lines that are ours to write, and
``bootstrap.checkpoint``, the first records of the metadata log: the same for every broker of a Kafka version. The real
tool writes the latter once per version into the cache.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from tests.lab import jars, jvm

TOOL_TIMEOUT = 60  # seconds: it takes one


def new_id() -> str:
    """Return a cluster or directory ID as Kafka writes them: 16 bytes, base64 for URLs, no padding."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def format_storage(version: str, data: Path, *, cluster_id: str, node_id: int) -> None:
    """Format ``data`` as the log directory of a new broker."""
    data.mkdir(parents=True, exist_ok=True)  # it can be a mount point
    shutil.copyfile(_bootstrap_checkpoint(version), data / "bootstrap.checkpoint")
    lines = ("version=1", f"cluster.id={cluster_id}", f"node.id={node_id}", f"directory.id={new_id()}")
    (data / "meta.properties").write_text("\n".join(lines) + "\n")


def _bootstrap_checkpoint(version: str) -> Path:
    cached = jars.cache_directory() / f"kafka-{version}.bootstrap.checkpoint"
    if not cached.exists():
        class_path = jars.class_path(version)
        with tempfile.TemporaryDirectory() as name:
            _run_tool(class_path, Path(name))
            fresh = shutil.move(Path(name) / "data" / "bootstrap.checkpoint", cached.with_name(f"{cached.name}.part"))
            Path(fresh).replace(cached)
    return cached


def _run_tool(class_path: str, directory: Path) -> None:
    settings = directory / "server.properties"
    settings.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={directory / 'data'}\n"
        "controller.quorum.voters=1@127.0.0.1:1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1\n"  # never opened
    )
    tool = ("kafka.tools.StorageTool", "format", "-t", new_id(), "-c", str(settings))
    outcome = subprocess.run(
        [jvm.java(), *jvm.QUICK_START, *jvm.log_options("error"), "-cp", class_path, *tool],
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT,
        check=False,
    )
    if outcome.returncode:
        raise RuntimeError(f"kafka-storage format failed:\n{outcome.stdout}{outcome.stderr}")
