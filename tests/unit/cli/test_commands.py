from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mm2.cli.commands import COMMANDS, execute, java_app, mm2_app


def bound(words: list[str]) -> dict[str, object]:
    """What the function behind ``mm2 …`` would be called with."""
    _, arguments, _ = mm2_app().parse_args(words, exit_on_error=False, print_error=False)
    return dict(arguments.arguments)


@pytest.mark.parametrize(
    ("words", "clusters"),
    [
        (["run", "mm2.properties"], None),
        (["run", "mm2.properties", "--clusters", "A"], ("A",)),
        (["run", "mm2.properties", "--clusters", "A", "B", "C"], ("A", "B", "C")),
        (["run", "mm2.properties", "--clusters", "A", "--clusters", "B"], ("A", "B")),
    ],
)
def test_clusters_takes_words_until_the_next_option(words: list[str], clusters: tuple[str, ...] | None) -> None:
    arguments = bound(words)
    assert arguments["file"] == Path("mm2.properties")
    assert arguments.get("clusters") == clusters


@pytest.mark.parametrize(
    "words",
    [
        ["-daemon", "f", "--clusters", "A", "B"],
        ["--daemon", "f", "--clusters", "A", "B"],
        ["f", "--clusters", "A", "B", "-daemon"],
    ],
)
def test_javas_form(words: list[str]) -> None:
    _, arguments, _ = java_app().parse_args(words, exit_on_error=False, print_error=False)
    assert dict(arguments.arguments) == {"file": Path("f"), "daemon": True, "clusters": ("A", "B")}


MISTAKES = {
    "unknown command": (["rnu"], "mm2: there is no command 'rnu'. Did you mean run?"),
    "no file": (["run"], "mm2 run: FILE is missing. Usage: mm2 run FILE [--clusters A B ...]"),
    "file after clusters": (
        ["run", "--clusters", "A", "f"],
        "mm2 run: FILE is missing: --clusters takes every word after",
    ),
    "two files": (["check", "f", "g"], "mm2 check: 'g' is one word too many. Usage: mm2 check FILE"),
    "empty clusters": (["run", "f", "--clusters"], "mm2 run: --clusters needs at least one cluster alias."),
    "unknown option": (["status", "f", "--jsn"], "mm2 status: Unknown option: --jsn. Did you mean --json?"),
    "both forms": (["status", "f", "--json", "--watch"], "mm2 status: --watch and --json do not go together"),
    "no such file": (["lag", "no-such-file"], "mm2 lag: no-such-file: does not exist."),
    "both forms of lag": (["lag", "f", "--json", "--watch"], "mm2 lag: --watch and --json do not go together"),
    "file after groups": (["offsets", "--group", "a", "f"], "mm2 offsets: FILE is missing: --group takes every word"),
    "empty groups": (["offsets", "f", "--group"], "mm2 offsets: --group needs at least one group."),
    "no file for offsets": (["offsets", "no-such-file"], "mm2 offsets: no-such-file: does not exist."),
    "no file for heartbeats": (["heartbeats", "no-such-file"], "mm2 heartbeats: no-such-file: does not exist."),
    "a node for offsets": (["offsets", "http://127.0.0.1:1"], "mm2 offsets: the clusters are asked, not a node: give"),
    "a node for heartbeats": (["heartbeats", "https://a:1"], "mm2 heartbeats: the clusters are asked, not a node"),
    "no file for topics": (["topics", "no-such-file"], "mm2 topics: no-such-file: does not exist."),
    "rules of a node": (["topics", "http://127.0.0.1:1", "--all"], "mm2 topics: --all needs FILE"),
}


@pytest.mark.parametrize(("words", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_exit_2(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(sentence)
    assert output.err.count("\n") == 1


def test_a_daemon_is_not_started_on_a_bad_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    assert execute(java_app(), ["-daemon", str(file)]) == 2
    assert "does not exist" in capsys.readouterr().err
    file.write_text("clusters = A, B\n")
    assert execute(java_app(), ["-daemon", str(file)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert f"{file}:1 clusters = A, B  A has no bootstrap.servers" in output.err


def test_no_words_at_all_give_the_help_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), []) == 2
    overview = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  {name}: " in overview


@pytest.mark.parametrize(
    "words",
    [
        ["offsets", "f", "--group", "a", "b, c", "größe"],
        ["offsets", "f", "--group", "a", "--group=b, c", "--group", "größe"],
    ],
)
def test_group_takes_names_as_they_are(words: list[str]) -> None:
    assert bound(words)["group"] == ("a", "b, c", "größe")
    assert bound(["offsets", "f", "--group=-x"])["group"] == ("-x",)


def test_ctrl_c_ends_a_command_that_looks_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("mm2.cli.check.check_file", interrupted)
    with pytest.raises(SystemExit) as ended:
        execute(mm2_app(), ["check", "f"])
    assert ended.value.code == 130


def test_ctrl_c_while_a_command_is_loaded_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    app = mm2_app()
    monkeypatch.setattr(type(app), "__call__", interrupted)
    assert execute(app, ["check", "f"]) == 130


def test_a_class_of_the_users_own_that_gives_no_answer_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "moody_topics.py").write_text(
        "from mm2.core.plugins import TopicFilter\n\n\n"
        "class Moody(TopicFilter):\n"
        "    def should_replicate_topic(self, topic):\n"
        "        return 'perhaps'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\n"
        "A->B.enabled = true\nB->A.enabled = true\ntopic.filter.class = moody_topics:Moody\n"
    )
    assert execute(mm2_app(), ["heartbeats", str(file)]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("mm2 heartbeats: topic.filter.class moody_topics:Moody: should_replicate_topic(")
    assert output.err.count("\n") == 1


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), ["version"]) == 0
    assert capsys.readouterr().out.startswith("mm2 0.")


HEAVY = ("pyspark", "fastapi", "uvicorn", "aiokafka", "pandas")


@pytest.mark.parametrize("words", [["--help"], ["version"], ["check", "no-such-file"]], ids=lambda words: words[0])
def test_small_commands_do_not_load_what_a_node_needs(words: list[str]) -> None:
    program = (
        "import sys; from mm2.cli.commands import execute, mm2_app; execute(mm2_app(), sys.argv[1:]);"
        f"print('loaded:', *(name for name in {HEAVY} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.endswith("loaded:\n")


def test_every_command_of_the_table_can_be_imported() -> None:
    app = mm2_app()
    for name in COMMANDS:
        assert app[name].default_command is not None
