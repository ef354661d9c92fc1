"""Results of finished tests in a file, one line each, so that an interrupted run continues where it stopped."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.lab.commands import ROOT

RESULTS = ROOT / "build" / "long" / "results.jsonl"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
WRITTEN_BY_RUNS = (
    "docs/explanation/guarantees.md"  # a run that updates it must not make its own results those of another tree
)
GIT_ANSWERS = 60.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A finished test. ``commit``: see `tree_version`; ``date`` is UTC. ``reason`` of a failure is its last line.

    ``properties`` are pairs of name and value that the test has recorded.
    """

    test: str
    outcome: str
    seconds: float
    commit: str
    date: str
    reason: str = ""
    properties: Sequence[tuple[str, Any]] = ()


class Journal:
    """The file of results. Several runs may append to it at the same time."""

    def __init__(self, file: Path = RESULTS) -> None:
        self._file = file

    def add(self, result: Result) -> None:
        """Append a result. It is on disk when this returns, unless the machine fails."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(
                "\n" + json.dumps(asdict(result)) + "\n"
            )  # also first, so that an unfinished line spoils no other

    def latest(self, commit: str) -> Mapping[str, Result]:
        """Return the last result of each test at this commit. A line that a killed run left unfinished is ignored."""
        return {one.test: one for one in self._all() if one.commit == commit}

    def forget(self, tests: Iterable[str], commit: str) -> None:
        """Remove the results of these tests at this commit."""
        gone = set(tests)
        kept = [one for one in self._all() if one.commit != commit or one.test not in gone]
        new = self._file.with_suffix(".new")
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text("\n".join(json.dumps(asdict(one)) for one in kept), encoding="utf-8")
        new.replace(self._file)

    def _all(self) -> list[Result]:
        found = []
        for line in self._file.read_text("utf-8").splitlines() if self._file.exists() else ():
            try:
                found.append(Result(**json.loads(line)))
            except (json.JSONDecodeError, TypeError):
                continue
        return found


def tree_version(root: Path = ROOT) -> str:
    """Return the commit of the working tree: ``0123456789``, and ``0123456789+abcdef`` if files differ from it.

    What follows the plus is a digest of these files, with those that are new and not ignored. Raises RuntimeError
    outside a git repository.
    """
    commit = _git(root, "rev-parse", "--short=10", "HEAD").decode().strip()
    digest = hashlib.sha256(_git(root, "diff", "HEAD", "--binary", "--", ".", f":(exclude){WRITTEN_BY_RUNS}"))
    new = [name for name in _git(root, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0") if name]
    for name in sorted(new):
        path = root / name.decode()
        digest.update(name + b"\0" + (path.read_bytes() if path.is_file() else b""))
    unchanged = hashlib.sha256().digest()
    return commit if digest.digest() == unchanged else f"{commit}+{digest.hexdigest()[:6]}"


def _git(root: Path, *arguments: str) -> bytes:
    ended = subprocess.run(["git", *arguments], cwd=root, capture_output=True, timeout=GIT_ANSWERS, check=False)
    if ended.returncode:
        raise RuntimeError(f"git {' '.join(arguments)}: {ended.stderr.decode().strip()}")
    return ended.stdout
