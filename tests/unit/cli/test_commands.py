from __future__ import annotations

import inspect
import pkgutil
import shlex
from pathlib import Path

import pytest

from mm2.cli.command_parser import parse
from mm2.cli.command_table import CHECKER_COMMAND, CHECKER_NAME, COMMANDS, JAVA_COMMAND, JAVA_NAME
from mm2.cli.commands import execute, java_app, mm2_app
from mm2.cli.mirror1_table import MIRROR1_COMMAND, MIRROR1_NAME
from mm2.cli.parameters import CliCommand, Parameter


def bound(args: list[str]) -> tuple[list[object], dict[str, object]]:
    """Return the arguments with which the function of ``mm2 …`` would be called."""
    return parse(COMMANDS[args[0]], args[1:])


@pytest.mark.parametrize(
    ("args", "clusters"),
    [
        (["run", "mm2.properties"], None),
        (["run", "mm2.properties", "--clusters", "A"], ("A",)),
        (["run", "mm2.properties", "--clusters", "A", "B", "C"], ("A", "B", "C")),
        (["run", "mm2.properties", "--clusters", "A", "--clusters", "B"], ("A", "B")),
    ],
)
def test_clusters_takes_all_values_up_to_the_next_option(args: list[str], clusters: tuple[str, ...] | None) -> None:
    assert bound(args) == ([Path("mm2.properties")], {} if clusters is None else {"clusters": clusters})


@pytest.mark.parametrize(
    "args",
    [
        ["-daemon", "f", "--clusters", "A", "B"],
        ["--daemon", "f", "--clusters", "A", "B"],
        ["f", "--clusters", "A", "B", "-daemon"],
    ],
)
def test_java_command_line(args: list[str]) -> None:
    assert parse(JAVA_COMMAND, args) == ([Path("f")], {"daemon": True, "clusters": ("A", "B")})


USAGE_ERRORS = {
    "unknown command": (["rnu"], "mm2: there is no command 'rnu'. Did you mean run?"),
    "no file": (["run"], "mm2 run: FILE is missing. Usage: mm2 run FILE [--clusters A B ...]"),
    "file after clusters": (
        ["run", "--clusters", "A", "f"],
        "mm2 run: FILE is missing: --clusters takes every word after",
    ),
    "unknown option of mm2": (["--vresion"], "mm2: unknown option --vresion. Usage: mm2 COMMAND"),
    "two files": (["check", "f", "g"], "mm2 check: unexpected argument 'g'. Usage: mm2 check FILE"),
    "empty clusters": (["run", "f", "--clusters"], "mm2 run: --clusters needs at least one cluster alias."),
    "unknown option": (["status", "f", "--jsn"], "mm2 status: unknown option --jsn. Did you mean --json?"),
    "unknown option before FILE": (["run", "--clsters", "A"], "mm2 run: unknown option --clsters. Did you mean --clu"),
    "option with a value that takes none": (["lag", "f", "--json=x"], "mm2 lag: --json takes no value."),
    "option without its value": (["explain", "f", "--flow"], "mm2 explain: --flow needs a value."),
    "option after two dashes": (["check", "f", "--", "--clusters"], "mm2 check: unexpected argument '--clusters'."),
    "option given twice": (["explain", "f", "--flow", "A->B", "--flow=B->A"], "mm2 explain: --flow is given more than"),
    "no flow": (["pause", "f"], "mm2 pause: --flow is missing. Usage: mm2 pause FILE|URL --flow 'A->B' [--"),
    "no task": (["restart", "f", "--flow", "A->B"], "mm2 restart: TASK is missing."),
    "both forms": (["status", "f", "--json", "--watch"], "mm2 status: --watch and --json cannot be combined"),
    "no such file": (["lag", "no-such-file"], "mm2 lag: no-such-file: error: does not exist"),
    "both forms of lag": (["lag", "f", "--json", "--watch"], "mm2 lag: --watch and --json cannot be combined"),
    "file after groups": (["offsets", "--group", "a", "f"], "mm2 offsets: FILE is missing: --group takes every word"),
    "empty groups": (["offsets", "f", "--group"], "mm2 offsets: --group needs at least one group."),
    "no file for offsets": (["offsets", "no-such-file"], "mm2 offsets: no-such-file: error: does not exist"),
    "no file for heartbeats": (["heartbeats", "no-such-file"], "mm2 heartbeats: no-such-file: error: does not exist"),
    "a node for offsets": (
        ["offsets", "http://127.0.0.1:1"],
        "mm2 offsets: this command reads from the clusters, not from",
    ),
    "a node for heartbeats": (
        ["heartbeats", "https://a:1"],
        "mm2 heartbeats: this command reads from the clusters, not",
    ),
    "no file for topics": (["topics", "no-such-file"], "mm2 topics: no-such-file: error: does not exist"),
    "rules of a node": (["topics", "http://127.0.0.1:1", "--all"], "mm2 topics: --all needs FILE"),
}


@pytest.mark.parametrize(("args", "message"), USAGE_ERRORS.values(), ids=USAGE_ERRORS)
def test_usage_errors_are_one_line_and_exit_2(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(mm2_app(), args) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(message)
    assert output.err.count("\n") == 1


def test_java_command_line_without_abbreviations(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(java_app(), ["-d", "f"]) == 2
    assert capsys.readouterr().err.startswith(
        "connect-mirror-maker: unknown option -d. Usage: connect-mirror-maker [-d"
    )


def test_daemon_is_not_started_with_an_invalid_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    assert execute(java_app(), ["-daemon", str(file)]) == 2
    assert "does not exist" in capsys.readouterr().err
    file.write_text("clusters = A, B\n")
    assert execute(java_app(), ["-daemon", str(file)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert f"{file}:1: error: clusters = A, B: cluster A has no bootstrap.servers" in output.err


def test_no_arguments_print_the_help_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), []) == 2
    overview = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  {name} " in overview


@pytest.mark.parametrize(
    "args",
    [
        ["offsets", "f", "--group", "a", "b, c", "größe"],
        ["offsets", "f", "--group", "a", "--group=b, c", "--group", "größe"],
    ],
)
def test_group_takes_names_unchanged(args: list[str]) -> None:
    assert bound(args)[1]["group"] == ("a", "b, c", "größe")
    assert bound(["offsets", "f", "--group=-x"])[1]["group"] == ("-x",)
    assert bound(["offsets", "f", "--group", "-5", "- x"])[1]["group"] == ("-5", "- x")


def test_arguments_after_two_dashes_are_not_options() -> None:
    assert bound(["status", "--json", "--", "-f"]) == (["-f"], {"json": True})


@pytest.mark.parametrize("where", ["mm2.cli.file.check.check_file", "mm2.cli.commands.pkgutil.resolve_name"])
def test_ctrl_c_is_exit_130_without_a_traceback(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupted)
    assert execute(mm2_app(), ["check", "f"]) == 130


def test_failing_user_class_is_one_error_line(
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


@pytest.mark.parametrize("args", [["version"], ["--version"]], ids=str)
def test_version(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), args) == 0
    assert capsys.readouterr().out.startswith("mm2 0.")


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["check", "--help"], ["check", "-h"], ["check", "f", "--help"]])
def test_help_is_exit_0(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), args) == 0
    assert capsys.readouterr().out.startswith("Usage: mm2 ")


EVERY_COMMAND = {
    **{f"mm2 {name}": command for name, command in COMMANDS.items()},
    JAVA_NAME: JAVA_COMMAND,
    CHECKER_NAME: CHECKER_COMMAND,
    MIRROR1_NAME: MIRROR1_COMMAND,
}


@pytest.mark.parametrize(("name", "command"), EVERY_COMMAND.items(), ids=EVERY_COMMAND)
def test_the_example_of_each_help_is_a_valid_command_line(name: str, command: CliCommand) -> None:
    assert command.example.startswith(name)
    arguments, _ = parse(command, shlex.split(command.example.removeprefix(name)))
    assert len(arguments) == sum(not parameter.is_option for parameter in command.parameters)


@pytest.mark.parametrize("command", EVERY_COMMAND.values(), ids=EVERY_COMMAND)
def test_every_command_function_accepts_the_declared_parameters(command: CliCommand) -> None:
    function = pkgutil.resolve_name(command.function)
    arguments = ["" for parameter in command.parameters if not parameter.is_option]
    options = {parameter.function_parameter: "" for parameter in command.parameters if parameter.is_option}
    required = {parameter.function_parameter for parameter in command.parameters if parameter.required}
    inspect.signature(function).bind(*arguments, **options)
    inspect.signature(function).bind(*arguments, **{name: "" for name in options if name in required})


def test_command_is_a_module_and_a_table_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "greet.py").write_text(
        "def greet(name, *, loud=False):\n    print('hello', name, loud)\n    return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = CliCommand(
        function="greet:greet",
        help="Greet a person.\n\nOnly once.",
        example="mm2 greet Ada",
        parameters=(
            Parameter(names=("NAME",), help="The person.", required=True),
            Parameter(names=("--loud",), help="Shout."),
        ),
    )
    monkeypatch.setitem(COMMANDS, "greet", entry)
    assert execute(mm2_app(), ["greet", "Ada", "--loud"]) == 3
    assert capsys.readouterr().out == "hello Ada True\n"
    assert execute(mm2_app(), ["greet"]) == 2
    assert capsys.readouterr().err == "mm2 greet: NAME is missing. Usage: mm2 greet NAME [--loud]\n"
    assert execute(mm2_app(), ["--help"]) == 0
    assert "Greet a person." in capsys.readouterr().out
