"""Reloads of the file are audited, with its digest, and the tokens of a wrong file are not taken over."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mm2.config.settings import NodeSettings
from mm2.core.access.audit import AuditEntry
from mm2.node.identity import NodeIdentity
from mm2.node.reload.file_follower import FileFollower, file_status
from tests.unit.node.reload.watched_file import WatchedFile

LINES = "mm2.rest.tokens.file = tokens\n"


class Recorder:
    """What a follower does with a node: audit records and reloads, in their order."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.tokens: list[tuple[str, ...]] = []

    def audit(self, entry: AuditEntry) -> None:
        self.done.append(entry)

    def use(self, settings: NodeSettings) -> None:
        self.done.append("applied")
        self.tokens.append(tuple(one.name for one in settings.tokens))

    async def reload(self, *_: object) -> None:
        self.done.append("reloaded")


async def follow(file: WatchedFile, seconds: float = 60) -> Recorder:
    """Follow the file for simulated seconds."""
    recorder = Recorder()
    node: Any = SimpleNamespace(
        audit=recorder.audit, reload=recorder.reload, use_credentials=lambda _: None, file=file_status(file.watch)
    )
    identity = NodeIdentity(node_id="mm2-1", version="1")
    follower = FileFollower(file.watch, node, identity, recorder.use)
    for _, event in await file.run(seconds):
        await follower._take(event)
    return recorder


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def test_changed_file(tmp_path: Path) -> None:
    file = WatchedFile(tmp_path)
    file.clock.at(5, lambda: file.write("A->B.topics = orders\n"))
    before, *between, after = (await follow(file)).done
    assert between == ["applied", "reloaded"]
    for entry, outcome in ((before, "attempted"), (after, "done")):
        assert (entry.what, entry.node, entry.outcome, entry.changed) == ("reload", "mm2-1", outcome, ("A->B.topics",))
        assert (entry.file, entry.sha256) == (str(file.path), digest(file.path))


async def test_wrong_tokens_leave_the_former_ones_in_force(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    good, better = f"alice viewer {'a' * 64}\n", f"bob viewer {'b' * 64}\n"
    tokens.write_text(good)
    file = WatchedFile(tmp_path, LINES)
    file.clock.at(5, lambda: tokens.write_text(f"{better}carol viewer\n"))
    file.clock.at(15, lambda: tokens.write_text(better))
    found = await follow(file)
    rejected, attempted, *_, done = found.done
    assert (rejected.outcome, attempted.outcome, done.outcome) == ("rejected", "attempted", "done")
    assert f"{tokens}:2: error: mm2.rest.tokens.file = tokens: has 2 words" in rejected.detail
    assert attempted.changed == ("mm2.rest.tokens.file",)
    assert found.tokens == [("bob",)]


async def test_unchanged_file(tmp_path: Path) -> None:
    file = WatchedFile(tmp_path)
    file.clock.at(5, file.watch.ask)
    applied, entry = (await follow(file)).done
    assert (applied, entry.outcome, entry.detail) == ("applied", "done", "no changes")
