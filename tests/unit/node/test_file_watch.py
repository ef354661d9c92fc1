"""The watch on real files, with a clock that does not let a test wait; one test takes the real one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from mm2.config.load import load_file
from mm2.config.reach import Reach
from mm2.config.sources import take
from mm2.node import file_watch
from mm2.node.file_watch import (
    LONGEST_S,
    LOOK_EVERY_S,
    SETTLE_S,
    Broken,
    Changed,
    Event,
    FileWatch,
    LoopClock,
    Unchanged,
    Unrest,
)
from tests.unit.config.files import CLUSTERS

BAD = "tasks.max = 0\n"
DIRECTORY = (
    "config.providers = dir\n"
    "config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
)


class _Over(Exception):
    """The time that a test gives its watch."""


class Hours:
    """A clock that jumps. What is to happen at a time happens when that has come."""

    def __init__(self) -> None:
        self._now = 0.0
        self._until = 0.0
        self._plan: list[tuple[float, Callable[[], object]]] = []

    def at(self, when: float, deed: Callable[[], object]) -> None:
        self._plan.append((when, deed))

    def now(self) -> float:
        return self._now

    async def wait(self, asked: asyncio.Event, within: float) -> None:
        await asyncio.sleep(0)
        end = self._now + within
        while not asked.is_set() and self._now < end:
            self._now = min([end, *(when for when, _ in self._plan)])
            if self._now > self._until:
                raise _Over
            for due in [one for one in self._plan if one[0] <= self._now]:
                self._plan.remove(due)
                due[1]()

    async def run(self, watch: FileWatch, seconds: float) -> list[tuple[float, Event]]:
        """All that the watch says within ``seconds``, with the time of it."""
        self._until = self._now + seconds
        said: list[tuple[float, Event]] = []
        async with aclosing(watch.events()) as events:
            with contextlib.suppress(_Over):
                while True:
                    event = await anext(events)
                    said.append((self._now, event))
        return said


class Desk:
    """A file, a watch on it, and time."""

    def __init__(self, directory: Path, lines: str = "") -> None:
        self.path = directory / "mm2.properties"
        self.write(lines)
        self.clock = Hours()
        self.watch = FileWatch(take(self.path), self.clock)

    def write(self, lines: str) -> None:
        self.path.write_text(CLUSTERS + lines)

    def rename(self, lines: str) -> None:
        """As editors do."""
        new = self.path.with_suffix(".new")
        new.write_text(CLUSTERS + lines)
        new.rename(self.path)

    async def run(self, seconds: float = 60) -> list[tuple[float, Event]]:
        return await self.clock.run(self.watch, seconds)

    @property
    def tasks_max(self) -> int:
        return self.watch.reading.settings.flows[0].source.tasks_max


def keys_of(event: Event) -> list[str]:
    assert isinstance(event, Changed)
    changed = [change for flow in event.diff.changed for change in flow.changes]
    return [change.key for change in (*changed, *event.diff.node, *event.diff.idle)]


async def test_nothing_happens_while_nothing_changes(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.clock.at(10, lambda: os.utime(desk.path, ns=(1, 1)))
    assert await desk.run() == []


@pytest.mark.parametrize("how", ["write", "rename"])
async def test_a_change_is_told_once_it_has_settled(tmp_path: Path, how: str) -> None:
    desk = Desk(tmp_path)
    desk.clock.at(10.5, lambda: getattr(desk, how)("tasks.max = 4\n"))
    ((when, event),) = await desk.run()
    assert keys_of(event) == ["tasks.max"]
    assert 10.5 + SETTLE_S <= when <= 10.5 + LOOK_EVERY_S + SETTLE_S
    assert isinstance(event, Changed)
    assert event.reading is desk.watch.reading
    assert (event.pending, event.warnings, desk.tasks_max) == ((), (), 4)


async def test_a_file_in_the_middle_of_being_written(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    whole = CLUSTERS + "tasks.max = 4\n"
    for step in range(12):
        desk.clock.at(9.8 + step / 4, lambda part=whole[: 9 * step]: desk.path.write_text(part))  # type: ignore[misc]
    desk.clock.at(13, lambda: desk.path.write_text(whole))
    ((_, event),) = await desk.run()
    assert keys_of(event) == ["tasks.max"]


async def test_a_file_that_never_rests_is_read_all_the_same(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for step in range(200):
        desk.clock.at(10 + step / 2, lambda number=step: desk.write(f"tasks.max = {number + 1}\n"))  # type: ignore[misc]
    said = await desk.run(80)
    assert 10 + LONGEST_S <= said[0][0] <= 10 + LONGEST_S + LOOK_EVERY_S + SETTLE_S
    assert len(said) == 2


async def test_a_file_that_is_away_for_a_moment(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.clock.at(9.9, lambda: desk.path.rename(tmp_path / "backup"))
    desk.clock.at(10.4, lambda: (tmp_path / "backup").rename(desk.path))
    assert await desk.run() == []


async def test_a_broken_file_is_told_once_and_leaves_the_good_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "tasks.max = 3\n")
    desk.clock.at(5, lambda: desk.write(BAD))
    desk.clock.at(15, lambda: desk.write(f"{BAD}# again\n"))
    desk.clock.at(25, lambda: desk.write(f"{BAD}replication.factor = 0\n"))
    desk.clock.at(35, lambda: desk.write("tasks.max = 5\n"))
    first, second, third = await desk.run()
    assert isinstance(first[1], Broken)
    assert isinstance(second[1], Broken)
    assert [str(problem).partition("  ")[0] for problem in first[1].problems] == [f"{desk.path}:5 tasks.max = 0"]
    assert len(second[1].problems) == 2
    assert 25 < second[0] < 30
    assert isinstance(third[1], Changed)
    assert [str(change).partition(" ")[2] for flow in third[1].diff.changed for change in flow.changes] == [
        "tasks.max = 5  (was 3)"
    ]


async def test_a_file_that_is_repaired(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.clock.at(5, lambda: desk.write(BAD))
    desk.clock.at(15, lambda: desk.write(""))
    desk.clock.at(25, lambda: desk.write(BAD))
    desk.clock.at(35, lambda: desk.write("# all is well"))
    said = [event for _, event in await desk.run()]
    assert [type(event) for event in said] == [Broken, Unchanged, Broken, Unchanged]
    assert all(event.repaired for event in said if isinstance(event, Unchanged))


async def test_a_file_that_is_gone(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.clock.at(5, desk.path.unlink)
    ((_, event),) = await desk.run()
    assert isinstance(event, Broken)
    assert [problem.text.partition(".")[0] for problem in event.problems] == ["does not exist"]


async def test_a_comment_is_read_and_changes_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.clock.at(5, lambda: desk.write("# a word\n"))
    ((_, event),) = await desk.run()
    assert event == Unchanged(reading=desk.watch.reading, pending=(), repaired=False)


async def test_warnings_come_along(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.clock.at(5, lambda: desk.write("topcis = a\n"))
    ((_, event),) = await desk.run()
    assert isinstance(event, Changed)
    assert event.diff.reach is Reach.NOTHING
    assert keys_of(event) == ["topcis"]
    assert "Did you mean topics?" in event.warnings[0].text


async def test_what_waits_for_the_node_waits_through_other_changes(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "mm2.lanes = 2\n")
    desk.clock.at(5, lambda: desk.write("mm2.lanes = 3\n"))
    desk.clock.at(15, lambda: desk.write("mm2.lanes = 3\ntasks.max = 2\n"))
    desk.clock.at(25, lambda: desk.write("mm2.lanes = 3\ntasks.max = 2\n#\n"))
    desk.clock.at(35, lambda: desk.write("mm2.lanes = 2\ntasks.max = 2\n"))
    said = [event for _, event in await desk.run()]
    assert [[change.key for change in event.pending] for event in said if not isinstance(event, Broken)] == [
        ["mm2.lanes"],
        ["mm2.lanes"],
        ["mm2.lanes"],
        [],
    ]
    assert keys_of(said[1]) == ["tasks.max"]


async def test_no_event_shows_a_secret(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    secret = "my.password = sesame\nspark.ssl.keyPassword = sesame\n"
    desk.clock.at(5, lambda: desk.write(secret))
    desk.clock.at(
        15, lambda: desk.write(f"{secret}mm2.lanes = sesame-lanes\nB.sasl.jaas.config = sesame\ntasks.max = 0\n")
    )
    said = [event for _, event in await desk.run()]
    assert [type(event) for event in said] == [Changed, Broken]
    assert repr(said).replace("sesame-lanes", "").count("sesame") == 0


async def test_a_config_map_s_link_is_swapped(tmp_path: Path) -> None:
    """As the kubelet does: file -> ..data/file, ..data -> a directory of its own for each version."""
    for version, lines in (("1", ""), ("2", "tasks.max = 2\n")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "mm2.properties").write_text(CLUSTERS + lines)
    data = tmp_path / "..data"
    data.symlink_to("1")
    (tmp_path / "mm2.properties").symlink_to("..data/mm2.properties")
    clock = Hours()
    watch = FileWatch(take(tmp_path / "mm2.properties"), clock)

    def swap() -> None:
        (tmp_path / "..data_tmp").symlink_to("2")
        (tmp_path / "..data_tmp").rename(data)

    clock.at(10, swap)
    ((_, event),) = await clock.run(watch, 60)
    assert keys_of(event) == ["tasks.max"]


async def test_files_behind_references_count_too(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    desk = Desk(tmp_path)
    lines = f"{DIRECTORY}tasks.max = ${{dir:{secrets}:tasks}}\n"
    desk.clock.at(5, lambda: desk.write(lines))  # refers to what is not there yet
    desk.clock.at(15, lambda: (secrets / "tasks").write_text("2"))
    desk.clock.at(25, lambda: (secrets / "tasks").write_text("3"))
    desk.clock.at(35, lambda: desk.write(""))
    desk.clock.at(45, lambda: (secrets / "tasks").write_text("4"))
    said = await desk.run()
    assert [type(event) for _, event in said] == [Broken, Changed, Changed, Changed]
    assert [int(when) // 10 * 10 for when, _ in said] == [0, 10, 20, 30]
    assert desk.watch.files == (desk.path,)


async def test_who_asks_is_answered(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.clock.at(5.5, desk.watch.ask)
    desk.clock.at(10, lambda: desk.write(BAD))
    desk.clock.at(10.1, desk.watch.ask)
    desk.clock.at(20, desk.watch.ask)
    desk.clock.at(30, lambda: desk.write("tasks.max = 2\n"))
    desk.clock.at(30.1, desk.watch.ask)
    said = await desk.run()
    assert [(when, type(event)) for when, event in said] == [
        (5.5, Unchanged),
        (10.1, Broken),
        (20, Broken),
        (30.1, Changed),
    ]


async def test_an_unforeseen_error_leaves_the_watch_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(tmp_path)

    def fails(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(file_watch, "compare", fails)
    desk.clock.at(5, lambda: desk.write("tasks.max = 2\n"))
    desk.clock.at(15, lambda: desk.write("tasks.max = 3\n"))
    desk.clock.at(20, monkeypatch.undo)
    desk.clock.at(25, lambda: desk.write("tasks.max = 4\n"))
    with caplog.at_level(logging.ERROR):
        said = [event for _, event in await desk.run()]
    assert [type(event) for event in said] == [Broken, Changed]
    assert isinstance(said[0], Broken)
    assert str(said[0].problems[0]) == f"{desk.path}: cannot be taken over: an unexpected error, see the log."
    assert "a mistake of ours" in caplog.text
    assert keys_of(said[1]) == ["tasks.max"]


async def test_a_change_while_the_file_is_being_read_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)

    def slow(path: Path, clusters: tuple[str, ...]) -> object:
        found = load_file(path, clusters)
        monkeypatch.undo()
        desk.write("tasks.max = 3\n")
        return found

    monkeypatch.setattr("mm2.config.sources.load_file", slow)
    desk.clock.at(5, lambda: desk.write("tasks.max = 2\n"))
    assert [keys_of(event) for _, event in await desk.run()] == [["tasks.max"], ["tasks.max"]]
    assert desk.tasks_max == 3


async def test_by_the_real_clock_and_a_real_signal(tmp_path: Path) -> None:
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


async def test_the_loop_s_clock_waits_no_longer_than_told() -> None:
    clock, asked = LoopClock(), asyncio.Event()
    began = clock.now()
    await clock.wait(asked, 0.01)
    assert 0 < clock.now() - began < 10
    asked.set()
    await clock.wait(asked, 60)
    assert clock.now() - began < 10


def test_a_watch_begins_with_a_good_file(tmp_path: Path) -> None:
    (tmp_path / "mm2.properties").write_text(CLUSTERS + BAD)
    with pytest.raises(AssertionError, match="broken"):
        FileWatch(take(tmp_path / "mm2.properties"))


def test_unrest_pauses_as_long_as_it_must() -> None:
    path = Path("f")
    unrest = Unrest({path: "1"})
    assert unrest.pause == LOOK_EVERY_S
    assert not unrest.is_over({path: "2"}, 10.0)
    assert unrest.pause == SETTLE_S
    assert not unrest.is_over({path: "1"}, 11.0)
    assert unrest.pause == LOOK_EVERY_S
    assert not unrest.is_over({path: "2"}, 20.0)
    assert unrest.is_over({path: "2"}, 20.0 + SETTLE_S)
    unrest.handled({path: "2"})
    assert not unrest.is_over({path: "2"}, 99.0)
