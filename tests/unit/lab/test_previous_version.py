"""Which commit runs beside the working tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.lab import previous_version
from tests.lab.previous_version import FIRST_FILE, NoPreviousVersionError, previous_commit

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")

pytestmark = pytest.mark.needs("git")


class Repository:
    """A git repository with commits of single files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *IDENTITY, *arguments], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, file: str, text: str) -> None:
        (self.root / file).parent.mkdir(parents=True, exist_ok=True)
        (self.root / file).write_text(text)

    def commit(self, file: str, text: str) -> str:
        self.write(file, text)
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", text)
        return self.git("rev-parse", "--short", "HEAD")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(previous_version, "COMMIT", None)
    return Repository(tmp_path)


def test_the_commit_before_the_last_change_of_the_code(repository: Repository) -> None:
    repository.commit(FIRST_FILE, "1")
    before = repository.commit("README.md", "2")
    repository.commit("flows/lane.py", "3")
    repository.commit("README.md", "4")
    assert previous_commit(repository.root) == before


def test_the_last_commit_if_the_code_has_changed_since(repository: Repository) -> None:
    last = repository.commit(FIRST_FILE, "1")
    repository.write(FIRST_FILE, "2")
    assert previous_commit(repository.root) == last


def test_a_merge_is_compared_with_its_first_parent(repository: Repository) -> None:
    main = repository.commit(FIRST_FILE, "1")
    repository.git("switch", "--quiet", "--create", "branch")
    repository.commit("mm2/a.py", "2")
    repository.commit("mm2/b.py", "3")
    repository.git("switch", "--quiet", "-")
    repository.git("merge", "--quiet", "--no-ff", "--message", "4", "branch")
    assert previous_commit(repository.root) == main


def test_reasons_why_there_is_none(repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for root, reason in ((elsewhere, "not a git repository"), (repository.root, "not a git repository")):
        with pytest.raises(NoPreviousVersionError, match=reason):
            previous_commit(root)
    repository.commit("mm2/a.py", "other records")
    repository.commit(FIRST_FILE, "1")
    with pytest.raises(NoPreviousVersionError, match=f"has no {FIRST_FILE}"):
        previous_commit(repository.root)
    shallow = elsewhere / "shallow"
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.root}", str(shallow))
    with pytest.raises(NoPreviousVersionError, match="shallow"):
        previous_commit(shallow)
