"""The version of mm2 before the one in the working tree, unpacked from git, to run beside it."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

from tests.lab import scratch
from tests.lab.commands import ROOT

CODE = ("mm2", "flows")
FIRST_FILE = "mm2/core/lanes/lease.py"  # commits without it have other internal records: mixing them is not promised
COMMIT = os.environ.get("MM2_PREVIOUS")  # a commit or tag to run instead of the previous one
IMPORTED_BY = "imported-by-"
RECORD = f"""
import os, pathlib
pathlib.Path(__file__).with_name(f"{IMPORTED_BY}{{os.getpid()}}").touch()
"""
PATIENCE = 60.0  # seconds for one git command; archiving two megabytes takes a tenth


NO_HISTORY = "no previous version"
"""Start of the reason for which a test is skipped."""


class NoPreviousVersionError(Exception):
    """There is no earlier version that can run beside this one; the message is the reason."""


def previous_commit(root: Path = ROOT) -> str:
    """Return the newest ancestor of HEAD, or HEAD itself, whose code differs from the working tree.

    Of a merge commit, only the first parent counts. Raises NoPreviousVersionError.
    """
    commit = COMMIT or _newest_different(root)
    if not _found(_git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")):
        raise NoPreviousVersionError(f"{root} has no commit {commit}")
    if not _found(_git(root, "cat-file", "-e", f"{commit}:{FIRST_FILE}")):
        raise NoPreviousVersionError(f"commit {commit} has no {FIRST_FILE}: its nodes and ours cannot share a flow")
    return _output(_git(root, "rev-parse", "--short", commit))


def unpack(commit: str) -> Path:
    """Write the code of a commit into a new directory and return it. Its packages record who imports them."""
    archive = _git(ROOT, "archive", commit, *CODE)
    archive.check_returncode()
    tree = scratch.directory(f"version-{commit}") / scratch.DATA
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tree, filter="data")
    for package in CODE:
        with (tree / package / "__init__.py").open("a") as file:
            file.write(RECORD)
    return tree


def importers(tree: Path) -> set[int]:
    """Return the ids of the processes that have imported a package of an unpacked version."""
    return {int(file.name.removeprefix(IMPORTED_BY)) for file in tree.glob(f"*/{IMPORTED_BY}*")}


def _newest_different(root: Path) -> str:
    if not _found(_git(root, "rev-parse", "--verify", "--quiet", "HEAD")):
        raise NoPreviousVersionError(f"{root} is not a git repository: the previous version is not known")
    if not _found(_git(root, "diff", "--quiet", "HEAD", "--", *CODE)):
        return _output(_git(root, "rev-parse", "--short", "HEAD"))
    changed = _output(_git(root, "rev-list", "-1", "--first-parent", "HEAD", "--", *CODE))
    before = _git(root, "rev-parse", "--verify", "--quiet", "--short", f"{changed}^")
    if not _found(before):
        raise NoPreviousVersionError(f"{root} has no commit before {changed:.9}: is the clone shallow?")
    return _output(before)


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, timeout=PATIENCE, check=False)


def _found(done: subprocess.CompletedProcess[bytes]) -> bool:
    return done.returncode == 0


def _output(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stdout.decode().strip()
