from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from mm2.config.load import Loaded
from tests.unit.config.files import CLUSTERS, loaded

ALICE = hashlib.sha256(b"token of alice").hexdigest()
ADMIN = "listeners = http://127.0.0.1:8083\nmm2.rest.admin = true\nmm2.rest.admin.token = open-sesame-open\n"
TOKENS = "mm2.rest.tokens.file = tokens\n"
LINE = len((CLUSTERS + ADMIN).splitlines()) + 1


def texts(result: Loaded) -> list[str]:
    return [str(one) for one in result.problems]


def test_tokens_are_read_from_a_file_beside_the_properties(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"# us\nalice operator {ALICE}\n")
    result = loaded(tmp_path, ADMIN + TOKENS)
    assert result.settings is not None
    assert [one.name for one in result.settings.tokens] == ["alice"]
    assert all(one.takes_commands for one in result.settings.flows)
    assert texts(result) == []


def test_wrong_line_is_named_with_file_and_line(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice operator {ALICE}\nbob viewer my-plain-token\n\ncarol reader {ALICE}\n")
    result = loaded(tmp_path, ADMIN + TOKENS)
    assert result.settings is None
    first, second = texts(result)
    assert first.startswith(
        f"{tokens}:2: error: mm2.rest.tokens.file = tokens: the digest of bob must be 64 hex digits"
    )
    assert "my-plain-token" not in first
    assert second.startswith(f"{tokens}:4: error: mm2.rest.tokens.file = tokens: the role of carol must be")


def test_the_command_of_the_fix_makes_a_line(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("alice operator wrong\n")
    (problem,) = loaded(tmp_path, ADMIN + TOKENS).problems
    command = problem.fix.removeprefix("write the output of ")
    shell = subprocess.run(
        ["sh", "-c", f"TOKEN='token of alice'; {command}"], capture_output=True, text=True, check=True
    )
    assert shell.stdout.split()[0] == ALICE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("directory", "cannot be read (Is a directory)"),
        (b"alice operator \xff", "is not UTF-8"),
    ],
)
def test_file_that_cannot_be_read(tmp_path: Path, content: object, message: str) -> None:
    if content == "directory":
        (tmp_path / "tokens").mkdir()
    elif isinstance(content, bytes):
        (tmp_path / "tokens").write_bytes(content)
    (problem,) = loaded(tmp_path, ADMIN + TOKENS).problems
    assert (problem.line, problem.is_warning) == (LINE, False)
    assert message in problem.rule


def test_empty_path(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, ADMIN + "mm2.rest.tokens.file =\n").problems
    assert problem.rule == "names no file"


def test_everyone_may_read_the_file_but_not_write_it(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"alice operator {ALICE}\n")
    tokens.chmod(0o644)
    assert texts(loaded(tmp_path, ADMIN + TOKENS)) == []
    tokens.chmod(0o666)
    (problem,) = loaded(tmp_path, ADMIN + TOKENS).problems
    assert problem.is_warning
    assert problem.rule == f"every user of this machine can add a token to {tokens}, because its mode is 0666"
    subprocess.run(problem.fix.removeprefix("run ").split(), check=True)
    assert texts(loaded(tmp_path, ADMIN + TOKENS)) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("mm2.rest.admin = true\n", "error: mm2.rest.admin = true: requires mm2.rest.admin.token"),
        (f"mm2.rest.admin = true\n{TOKENS}", "error: mm2.rest.admin = true: requires mm2.rest.admin.token"),
        ("mm2.rest.read = token\n", "error: mm2.rest.read = token: requires mm2.rest.tokens.file or mm2.rest.admin"),
        ("mm2.rest.read = password\n", "error: mm2.rest.read = password: must be open or token"),
        (TOKENS, "warning: mm2.rest.tokens.file = tokens: operators cannot send commands, because mm2.rest.admin is"),
    ],
)
def test_keys_that_need_each_other(tmp_path: Path, lines: str, message: str) -> None:
    (tmp_path / "tokens").write_text(f"alice operator {ALICE}\n")
    (text,) = texts(loaded(tmp_path, f"listeners = http://127.0.0.1:8083\n{lines}"))
    assert message in text


def test_no_listeners(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"alice viewer {ALICE}\n")
    (text,) = texts(loaded(tmp_path, f"mm2.rest.read = token\n{TOKENS}"))
    assert "warning: mm2.rest.read = token: has no effect without listeners" in text


def test_plain_http_for_readers_with_a_token(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"alice viewer {ALICE}\n")
    (text,) = texts(loaded(tmp_path, f"listeners = http://:8083\nmm2.rest.read = token\n{TOKENS}"))
    assert "mm2.rest.read is token, and http://:8083 is not encrypted: requests of other machines are rejected" in text
