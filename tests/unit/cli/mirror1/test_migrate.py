"""``mm2 migrate-mm1`` without clusters; with them: tests/integration/test_migrate_mm1.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from mm2.cli.commands import execute, mm2_app
from mm2.cli.file.check import check

FILES = ["migrate-mm1", "--consumer.config", "c.properties", "--producer.config", "p.properties", "--include", "a"]


@pytest.fixture(autouse=True)
def in_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.properties").write_text("bootstrap.servers=127.0.0.1:1\ngroup.id=mirror\n")
    Path("p.properties").write_text("bootstrap.servers=127.0.0.1:2\n")


def test_the_printed_file_has_no_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), FILES) == 0
    output = capsys.readouterr()
    assert output.err == ""
    Path("mm2.properties").write_text(output.out)
    assert check(Path("mm2.properties")) == 0
    assert capsys.readouterr().out == "ok: A->B\n"


def test_the_whole_command_line_of_mirror_maker_1_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--message.handler", "com.acme.Handler", "--message.handler.args=x", "--num.producers", "2"]
    assert execute(mm2_app(), [*FILES, *words, "--abort.on.send.failure", "true", "--partitions", "same"]) == 0
    output = capsys.readouterr()
    assert "# Not converted: com.acme.Handler." in output.out
    assert output.err.startswith("kafka-mirror-maker: warning: --num.producers: has no effect")


def test_assignors_are_of_no_importance(capsys: pytest.CaptureFixture[str]) -> None:
    """Offsets of the group are read, and nothing joins it."""
    with Path("c.properties").open("a") as file:
        file.write("partition.assignment.strategy=com.acme.Assignor\n")
    assert execute(mm2_app(), FILES) == 0
    assert "# without effect here: partition.assignment.strategy\n" in capsys.readouterr().out


def test_aliases(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), [*FILES, "--source", "paris", "--target=rome"]) == 0
    assert "paris->rome.enabled = true\n" in capsys.readouterr().out


def test_problems_are_printed_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.properties").write_text("bootstrap.servers=127.0.0.1:2\nacks=7\n")
    assert execute(mm2_app(), FILES) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("p.properties:2: error: acks = 7: must be all, -1, 0 or 1\n")
    assert output.err.endswith("mm2 migrate-mm1: 1 error, 0 warnings\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--source", "a b"], 2, "'a b' cannot be used: --source and --target are different aliases"),
        (["--source", "B"], 2, "'B' cannot be used: --source and --target are different aliases"),
        (["--partitions", "key"], 2, "--partitions key: a flow keeps the partitions of the source."),
        (["--consumer.config", "d.properties"], 2, "give one --consumer.config, and repeat the command for each"),
        (["--source", "docs..", "--write-offsets"], 1, "cluster docs.. (127.0.0.1:1) is unreachable: "),
        (["--write-offsets"], 1, "cluster A (127.0.0.1:1) is unreachable: "),
    ],
)
def test_errors_are_one_line(words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path("c.properties").open("a") as file:
        file.write("request.timeout.ms=500\n")
    assert execute(mm2_app(), [*FILES, *words]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"mm2 migrate-mm1: {message}")
    assert output.err.count("\n") == 1


def test_conflict_between_the_files(capsys: pytest.CaptureFixture[str]) -> None:
    for name, kind in (("c", "File"), ("p", "Directory")):
        with Path(f"{name}.properties").open("a") as file:
            provider = f"org.apache.kafka.common.config.provider.{kind}ConfigProvider"
            file.write(f"config.providers=f\nconfig.providers.f.class={provider}\n")
    assert execute(mm2_app(), FILES) == 2
    assert capsys.readouterr().err.startswith("mm2 migrate-mm1: config.providers.f.class has different values in")
