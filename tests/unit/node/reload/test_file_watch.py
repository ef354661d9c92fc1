"""The watch on real files with a simulated clock, and once with the real one."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from mm2.config.keys.update_mode import UpdateMode
from mm2.config.load import load_file
from mm2.config.reload.changes import FileDiff
from mm2.config.reload.comparison import ParsedConfig, compare
from mm2.config.reload.sources import take
from mm2.node.reload.file_watch import (
    LONGEST_S,
    LOOK_EVERY_S,
    SETTLE_S,
    FileChanged,
    FileInvalid,
    FileUnchanged,
    FileWatch,
    LoopClock,
    SettleTimer,
)
from tests.unit.config.files import CLUSTERS
from tests.unit.node.reload.watched_file import SimulatedClock, WatchedFile, keys_of

BAD = "tasks.max = 0\n"
DIRECTORY = (
    "config.providers = dir\n"
    "config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
)


async def test_nothing_happens_while_nothing_changes(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    watched.clock.at(10, lambda: os.utime(watched.path, ns=(1, 1)))
    assert await watched.run() == []


@pytest.mark.parametrize("how", ["write", "rename"])
async def test_a_change_is_reported_once_it_has_settled(tmp_path: Path, how: str) -> None:
    watched = WatchedFile(tmp_path)
    watched.clock.at(10.5, lambda: getattr(watched, how)("tasks.max = 4\n"))
    ((when, event),) = await watched.run()
    assert keys_of(event) == ["tasks.max"]
    assert 10.5 + SETTLE_S <= when <= 10.5 + LOOK_EVERY_S + SETTLE_S
    assert isinstance(event, FileChanged)
    assert event.reading is watched.watch.reading
    assert (event.pending, event.warnings, watched.tasks_max) == ((), (), 4)


async def test_a_file_in_the_middle_of_being_written(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    whole = CLUSTERS + "tasks.max = 4\n"
    for step in range(12):
        watched.clock.at(9.8 + step / 4, lambda part=whole[: 9 * step]: watched.path.write_text(part))  # type: ignore[misc]
    watched.clock.at(13, lambda: watched.path.write_text(whole))
    ((_, event),) = await watched.run()
    assert keys_of(event) == ["tasks.max"]


async def test_a_file_that_never_stops_changing_is_read(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    for step in range(200):
        watched.clock.at(10 + step / 2, lambda number=step: watched.write(f"tasks.max = {number + 1}\n"))  # type: ignore[misc]
    said = await watched.run(80)
    assert 10 + LONGEST_S <= said[0][0] <= 10 + LONGEST_S + LOOK_EVERY_S + SETTLE_S
    assert len(said) == 2


async def test_a_file_that_is_missing_for_a_moment(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    watched.clock.at(9.9, lambda: watched.path.rename(tmp_path / "backup"))
    watched.clock.at(10.4, lambda: (tmp_path / "backup").rename(watched.path))
    assert await watched.run() == []


async def test_an_invalid_file_is_reported_once_and_not_applied(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path, "tasks.max = 3\n")
    watched.clock.at(5, lambda: watched.write(BAD))
    watched.clock.at(15, lambda: watched.write(f"{BAD}# again\n"))
    watched.clock.at(25, lambda: watched.write(f"{BAD}replication.factor = 0\n"))
    watched.clock.at(35, lambda: watched.write("tasks.max = 5\n"))
    first, second, third = await watched.run()
    assert isinstance(first[1], FileInvalid)
    assert isinstance(second[1], FileInvalid)
    assert [(problem.line, problem.key, problem.value) for problem in first[1].problems] == [(5, "tasks.max", "0")]
    assert len(second[1].problems) == 2
    assert 25 < second[0] < 30
    assert isinstance(third[1], FileChanged)
    assert [str(change).partition(" ")[2] for flow in third[1].diff.changed for change in flow.changes] == [
        "tasks.max = 5 (was 3)"
    ]


async def test_a_near_miss_of_a_key_keeps_the_old_file(tmp_path: Path) -> None:
    """An edit of A->B.topics that copies all topics must not be applied."""
    watched = WatchedFile(tmp_path, "A->B.topics = orders\n")
    watched.clock.at(5, lambda: watched.write("A->B.tpoics = orders\n"))
    watched.clock.at(15, lambda: watched.write("A->B.tpoics = orders\nmm2.unknown.keys = warn\n"))
    first, second = await watched.run()
    assert isinstance(first[1], FileInvalid)
    assert [problem.rule for problem in first[1].problems if not problem.is_warning] == [
        "unknown property; ignoring it means that all topics are replicated"
    ]
    assert isinstance(second[1], FileChanged)
    assert any(problem.key == "A->B.tpoics" for problem in second[1].warnings)


async def test_a_file_that_is_repaired(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    watched.clock.at(5, lambda: watched.write(BAD))
    watched.clock.at(15, lambda: watched.write(""))
    watched.clock.at(25, lambda: watched.write(BAD))
    watched.clock.at(35, lambda: watched.write("# all is well"))
    said = [event for _, event in await watched.run()]
    assert [type(event) for event in said] == [FileInvalid, FileUnchanged, FileInvalid, FileUnchanged]
    assert all(event.repaired for event in said if isinstance(event, FileUnchanged))


async def test_a_deleted_file(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    watched.clock.at(5, watched.path.unlink)
    ((_, event),) = await watched.run()
    assert isinstance(event, FileInvalid)
    assert [problem.rule for problem in event.problems] == ["does not exist"]


async def test_a_comment_is_read_and_changes_nothing(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    watched.clock.at(5, lambda: watched.write("# a word\n"))
    ((_, event),) = await watched.run()
    assert event == FileUnchanged(reading=watched.watch.reading, pending=(), repaired=False)


async def test_warnings_are_part_of_the_event(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    watched.clock.at(5, lambda: watched.write("task.max = 1\n"))
    ((_, event),) = await watched.run()
    assert isinstance(event, FileChanged)
    assert event.diff.update_mode is UpdateMode.NOTHING
    assert keys_of(event) == ["task.max"]
    assert event.warnings[0].fix == "did you mean tasks.max?"


async def test_a_pending_change_remains_after_other_changes(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path, "mm2.lanes = 2\n")
    watched.clock.at(5, lambda: watched.write("mm2.lanes = 3\n"))
    watched.clock.at(15, lambda: watched.write("mm2.lanes = 3\ntasks.max = 2\n"))
    watched.clock.at(25, lambda: watched.write("mm2.lanes = 3\ntasks.max = 2\n#\n"))
    watched.clock.at(35, lambda: watched.write("mm2.lanes = 2\ntasks.max = 2\n"))
    said = [event for _, event in await watched.run()]
    assert [[change.key for change in event.pending] for event in said if not isinstance(event, FileInvalid)] == [
        ["mm2.lanes"],
        ["mm2.lanes"],
        ["mm2.lanes"],
        [],
    ]
    assert keys_of(said[1]) == ["tasks.max"]


async def test_no_event_shows_a_secret(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    secret = "my.password = sesame\nspark.ssl.keyPassword = sesame\n"
    watched.clock.at(5, lambda: watched.write(secret))
    watched.clock.at(
        15,
        lambda: watched.write(f"{secret}mm2.lanes = sesame-lanes\nB.sasl.jaas.config = sesame\ntasks.max = 0\n"),
    )
    said = [event for _, event in await watched.run()]
    assert [type(event) for event in said] == [FileChanged, FileInvalid]
    assert repr(said).replace("sesame-lanes", "").count("sesame") == 0


async def test_the_link_of_a_config_map_is_replaced(tmp_path: Path) -> None:
    """As the kubelet does: file -> ..data/file, ..data -> a directory of its own for each version."""
    for version, lines in (("1", ""), ("2", "tasks.max = 2\n")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "mm2.properties").write_text(CLUSTERS + lines)
    data = tmp_path / "..data"
    data.symlink_to("1")
    (tmp_path / "mm2.properties").symlink_to("..data/mm2.properties")
    clock = SimulatedClock()
    watch = FileWatch(take(tmp_path / "mm2.properties"), clock)

    def swap() -> None:
        (tmp_path / "..data_tmp").symlink_to("2")
        (tmp_path / "..data_tmp").rename(data)

    clock.at(10, swap)
    ((_, event),) = await clock.run(watch, 60)
    assert keys_of(event) == ["tasks.max"]


async def test_referenced_files_are_watched(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    watched = WatchedFile(tmp_path)
    lines = f"{DIRECTORY}tasks.max = ${{dir:{secrets}:tasks}}\n"
    watched.clock.at(5, lambda: watched.write(lines))  # refers to a file that does not exist yet
    watched.clock.at(15, lambda: (secrets / "tasks").write_text("2"))
    watched.clock.at(25, lambda: (secrets / "tasks").write_text("3"))
    watched.clock.at(35, lambda: watched.write(""))
    watched.clock.at(45, lambda: (secrets / "tasks").write_text("4"))
    said = await watched.run()
    assert [type(event) for _, event in said] == [FileInvalid, FileChanged, FileChanged, FileChanged]
    assert [int(when) // 10 * 10 for when, _ in said] == [0, 10, 20, 30]


async def test_every_request_gets_an_event(tmp_path: Path) -> None:
    watched = WatchedFile(tmp_path)
    watched.clock.at(5.5, watched.watch.ask)
    watched.clock.at(10, lambda: watched.write(BAD))
    watched.clock.at(10.1, watched.watch.ask)
    watched.clock.at(20, watched.watch.ask)
    watched.clock.at(30, lambda: watched.write("tasks.max = 2\n"))
    watched.clock.at(30.1, watched.watch.ask)
    said = await watched.run()
    assert [(when, type(event)) for when, event in said] == [
        (5.5, FileUnchanged),
        (10.1, FileInvalid),
        (20, FileInvalid),
        (30.1, FileChanged),
    ]


async def test_the_watch_continues_after_an_unexpected_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mistakes = [ZeroDivisionError("a mistake of ours")]

    def fails(*both: ParsedConfig) -> FileDiff:
        if mistakes:
            raise mistakes[0]
        return compare(*both)

    watched = WatchedFile(tmp_path, compare_configs=fails)
    watched.clock.at(5, lambda: watched.write("tasks.max = 2\n"))
    watched.clock.at(15, lambda: watched.write("tasks.max = 3\n"))
    watched.clock.at(20, mistakes.clear)
    watched.clock.at(25, lambda: watched.write("tasks.max = 4\n"))
    with caplog.at_level(logging.ERROR):
        said = [event for _, event in await watched.run()]
    assert [type(event) for event in said] == [FileInvalid, FileChanged]
    assert isinstance(said[0], FileInvalid)
    assert str(said[0].problems[0]) == (
        f"{watched.path}: error: not reloaded because of an unexpected error (fix: see the log of this node)"
    )
    assert "a mistake of ours" in caplog.text
    assert keys_of(said[1]) == ["tasks.max"]


async def test_a_change_while_the_file_is_being_read_is_not_missed(tmp_path: Path) -> None:
    later = ["tasks.max = 3\n"]

    def slow(path: Path, clusters: Sequence[str]) -> object:
        found = load_file(path, clusters)
        if later:
            watched.write(later.pop())
        return found

    watched = WatchedFile(tmp_path, load=slow)
    watched.clock.at(5, lambda: watched.write("tasks.max = 2\n"))
    assert [keys_of(event) for _, event in await watched.run()] == [["tasks.max"], ["tasks.max"]]
    assert watched.tasks_max == 3


async def test_with_a_real_clock_and_a_real_signal(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(CLUSTERS)
    watch = FileWatch(take(path))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, watch.ask)
    try:
        async with asyncio.timeout(30), aclosing(watch.events()) as events:
            path.write_text(CLUSTERS + "tasks.max = 2\n")
            os.kill(os.getpid(), signal.SIGHUP)
            began = loop.time()
            assert keys_of(await anext(events)) == ["tasks.max"]
            assert loop.time() - began < LOOK_EVERY_S, "SIGHUP did not hurry"
            path.write_text(CLUSTERS + "tasks.max = 3\n")
            assert keys_of(await anext(events)) == ["tasks.max"]
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


async def test_the_loop_clock_waits_no_longer_than_requested() -> None:
    clock, asked = LoopClock(), asyncio.Event()
    began = clock.now()
    await clock.wait(asked, 0.01)
    assert 0 < clock.now() - began < 10
    asked.set()
    await clock.wait(asked, 60)
    assert clock.now() - began < 10


def test_a_watch_starts_with_a_valid_file(tmp_path: Path) -> None:
    (tmp_path / "mm2.properties").write_text(CLUSTERS + BAD)
    with pytest.raises(AssertionError, match="invalid file"):
        FileWatch(take(tmp_path / "mm2.properties"))


def test_the_pause_while_a_file_changes() -> None:
    path = Path("f")
    unrest = SettleTimer({path: "1"})
    assert unrest.pause == LOOK_EVERY_S
    assert not unrest.is_over({path: "2"}, 10.0)
    assert unrest.pause == SETTLE_S
    assert not unrest.is_over({path: "1"}, 11.0)
    assert unrest.pause == LOOK_EVERY_S
    assert not unrest.is_over({path: "2"}, 20.0)
    assert unrest.is_over({path: "2"}, 20.0 + SETTLE_S)
    unrest.handled({path: "2"})
    assert not unrest.is_over({path: "2"}, 99.0)
