"""Programs that some tests need beyond Python, make and Java: found, or the test is skipped with the reason.

``.ci/run`` installs them with deploy/setup/test-tools.sh and sets ``MM2_NO_SKIPS=1``, with which a skip is a failure.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from tests.lab import jvm
from tests.lab.jars import cache_directory

REASONS = {
    "faketime": "needs faketime, for a clock that differs: deploy/setup/test-tools.sh installs it",
    "git": "needs git, for an earlier version of mm2",
    "gssapi": "needs the package gssapi: deploy/setup/test-tools.sh installs what it is built from, then make setup",
    "javac": "needs javac: install a JDK, not only a JRE",
    "krb5kdc": "needs an MIT Kerberos KDC and its tools: deploy/setup/test-tools.sh installs them",
    "kustomize": "needs kustomize: deploy/setup/test-tools.sh installs it",
    "promtool": "needs promtool, which comes with Prometheus: deploy/setup/test-tools.sh installs it",
    "root": "needs root, to mount a small file system, or to become another user",
    "systemd-analyze": "needs systemd-analyze, which comes with systemd",
}
SBIN = "/usr/sbin"  # where Debian installs the KDC; not in every PATH
NO_SKIPS = os.environ.get("MM2_NO_SKIPS") == "1"


def installed() -> Path:
    """Return the directory in which deploy/setup/test-tools.sh installs programs."""
    return cache_directory() / "tools" / "bin"


def find(tool: str) -> str | None:
    """Return the path of a tool, None if it is missing."""
    if tool == "root":
        return "/" if os.geteuid() == 0 else None
    if tool == "javac":
        try:
            return jvm.javac()
        except RuntimeError:
            return None
    if tool == "gssapi":
        spec = importlib.util.find_spec(tool)
        return None if spec is None else spec.origin
    return shutil.which(tool, path=os.pathsep.join((str(installed()), os.environ.get("PATH", ""), SBIN)))


def command(tool: str) -> str:
    """The same for a test with the marker ``needs``, which does not run without the tool."""
    found = find(tool)
    assert found is not None, REASONS[tool]
    return found
