"""The command line together with its files: which topics, how many streams, which classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mm2.core.mirror1.settings import Partitioning
from mm2.core.mirror1.user_class import UserClass
from tests.unit.config.mirror1.files import PRODUCER, loaded, messages, settings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"include": "a, b"}, ("a|b", None)),
        ({"include": None, "exclude": "a, b"}, (None, "a|b")),
    ],
)
def test_topics_of_the_command_line(
    given: dict[str, Any], expected: tuple[str | None, str | None], tmp_path: Path
) -> None:
    found = settings(tmp_path, "mirror.topics.whitelist=other\n", **given)
    assert (found.include, found.exclude) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [("mirror.topics.whitelist=a,b", ("a|b", None)), ("mirror.topics.blacklist=a,b", (None, "a|b"))],
)
def test_topics_of_a_file(line: str, expected: tuple[str | None, str | None], tmp_path: Path) -> None:
    found = settings(tmp_path, line, include=None)
    assert (found.include, found.exclude) == expected


@pytest.mark.parametrize(
    ("given", "lines", "message"),
    [
        ({"exclude": "a"}, "", "error: --blacklist: must not be given with --include or --whitelist"),
        ({"include": "*"}, "", "error: --include: is not a valid Java regular expression: nothing to repeat before *"),
        ({"include": None, "exclude": "("}, "", "error: --blacklist: is not a valid Java regular expression"),
        ({"include": None}, "", "error: --include: missing: no topics are selected"),
        ({"include": None}, "mirror.topics.whitelist=(", "error: mirror.topics.whitelist = (: is not a valid Java"),
        (
            {"include": None},
            "mirror.topics.whitelist=a\nmirror.topics.blacklist=b",
            "error: mirror.topics.blacklist = b: must not be set with mirror.topics.whitelist",
        ),
        ({}, "mirror.consumer.numthreads=0", "error: mirror.consumer.numthreads = 0: must be at least 1"),
    ],
)
def test_errors(given: dict[str, Any], lines: str, message: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, lines, **given)
    assert found.settings is None
    (error,) = messages(found)
    assert error.split(": ", 1)[1].startswith(message)


def test_topics_are_not_missing_if_the_file_could_not_be_read(tmp_path: Path) -> None:
    (message,) = messages(loaded(tmp_path, include=None, consumer_files=(tmp_path / "no-such-file",)))
    assert message.startswith("no-such-file: error: does not exist")


@pytest.mark.parametrize(
    ("line", "streams", "expected"),
    [("", None, 1), ("", 3, 3), ("mirror.consumer.numthreads=4", None, 4), ("mirror.consumer.numthreads=4", 2, 2)],
)
def test_streams(line: str, streams: int | None, expected: int, tmp_path: Path) -> None:
    assert settings(tmp_path, line, streams=streams).streams == expected


def test_several_sources(tmp_path: Path) -> None:
    (tmp_path / "second.properties").write_text("bootstrap.servers=c:9092\ngroup.id=mirror\nfetch.size=1\n")
    files = (tmp_path / "consumer.properties", tmp_path / "second.properties")
    found = loaded(tmp_path, "fetch.size=1\n", consumer_files=files)
    assert found.settings is not None
    assert [one.client.bootstrap_servers for one in found.settings.consumers] == [("a:9092",), ("c:9092",)]
    assert [line.partition(":")[0] for line in messages(found)] == ["consumer.properties", "second.properties"]


def test_errors_of_all_files_come_before_warnings(tmp_path: Path) -> None:
    found = loaded(tmp_path, "fetch.size=1\n", "acks=5\n", without_effect=("--new.consumer",))
    assert [problem.is_warning for problem in found.problems] == [False, True, True]


@pytest.mark.parametrize("name", ["--new.consumer", "--new.producer", "--num.producers", "--queue.size", "--whitelist"])
def test_options_without_effect(name: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, without_effect=(name,))
    assert found.settings is not None
    assert messages(found)[0].startswith(f"kafka-mirror-maker: warning: {name}: has no effect: ")


def test_other_options(tmp_path: Path) -> None:
    found = settings(tmp_path, commit_interval_ms=5, abort_on_send_failure=False, partitions=Partitioning.KEY)
    assert (found.commit_interval_ms, found.abort_on_send_failure, found.partitions) == (5, False, Partitioning.KEY)


def test_user_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_mirror.py").write_text(
        "class Handler:\n    def handle(self, record): ...\n"
        "class Listener:\n    def on_partitions_assigned(self, partitions): ...\n"
        "    def on_partitions_revoked(self, partitions): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = settings(
        tmp_path,
        start=("bootstrap.servers=b:9092\ngroup.id=g\n", PRODUCER),  # the same cluster: the handler renames topics
        handler="acme_mirror:Handler",
        handler_arguments="x",
        listener="acme_mirror:Listener",
    )
    assert found.handler == UserClass(name="acme_mirror:Handler", arguments="x")
    assert found.listener == UserClass(name="acme_mirror:Listener", arguments=None)


@pytest.mark.parametrize(
    ("given", "acks", "option"),
    [
        ({"partitions": Partitioning.KEY}, "acks=1", "--partitions key"),
        ({"partitions": Partitioning.KEY}, "request.required.acks=0", "--partitions key"),
        ({"handler": "acme_acks:Handler"}, "acks=1", "--message.handler"),
        ({"partitions": Partitioning.KEY}, "acks=all", None),
        ({}, "acks=1", None),
    ],
)
def test_acks_without_effect(
    given: dict[str, Any], acks: str, option: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_acks.py").write_text("class Handler:\n    def handle(self, record): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = loaded(tmp_path, "", acks, **given)
    assert found.settings is not None
    said = [message for message in messages(found) if "acknowledged by" in message]
    expected = f": has no effect with {option}: records are acknowledged by all in-sync replicas"
    assert [message.endswith(expected) for message in said] == ([] if option is None else [True])


def test_listeners(tmp_path: Path) -> None:
    settings = loaded(tmp_path, listeners="http://127.0.0.1:8083, http://mirror.example.com:8083").settings
    assert settings is not None
    assert settings.listeners == ("http://127.0.0.1:8083", "http://mirror.example.com:8083")
    assert loaded(tmp_path).settings.listeners == ()  # type: ignore[union-attr]  # it is valid


@pytest.mark.parametrize("text", ["https://127.0.0.1:8083", "127.0.0.1:8083", "http://127.0.0.1", "", "http://a:70000"])
def test_wrong_listeners(text: str, tmp_path: Path) -> None:
    (message,) = messages(loaded(tmp_path, listeners=text))
    assert message.startswith(f"kafka-mirror-maker: error: --listeners: {text}: must be comma-separated http URLs")


def test_user_classes_without_their_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_empty.py").write_text("class Handler: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    (problem,) = loaded(tmp_path, handler="acme_empty:Handler").problems
    assert "it has no handle" in problem.rule
    assert "mm2.core.mirror1.user_class" in problem.fix


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"handler": "kafka.tools.Mine"}, "error: --message.handler: kafka.tools.Mine: Java classes cannot be loaded"),
        (
            {"listener": "no_such:Thing"},
            "error: --consumer.rebalance.listener: no_such:Thing: module no_such not found",
        ),
        ({"handler_arguments": "x"}, "warning: --message.handler.args: has no effect: there is no class for it"),
        ({"listener_arguments": "x"}, "warning: --rebalance.listener.args: has no effect: there is no class for it"),
    ],
)
def test_user_class_problems(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert messages(loaded(tmp_path, **given))[0].startswith(f"kafka-mirror-maker: {message}")
