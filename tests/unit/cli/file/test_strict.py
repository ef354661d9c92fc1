"""``mm2 check --strict``, for pipelines: warnings are errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mm2.cli.file.check import check
from mm2.config.load import load
from tests.unit.config.files import CLUSTERS

ROOT = Path(__file__).parents[4]
SHIPPED = sorted(
    path for path in (ROOT / "mm2.properties.example", *ROOT.glob("deploy/**/*.properties")) if path.is_file()
)
CALLS = re.compile(r"--strict")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_warning_rejects_the_file(tmp_path: Path, as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"{CLUSTERS}completely.unknown = 1\n")
    assert check(file, json=as_json) == 0
    assert capsys.readouterr().out
    assert check(file, json=as_json, strict=True) == 2
    out = capsys.readouterr().out
    if as_json:
        answer = json.loads(out)
        assert (answer["ok"], answer["errors"], answer["warnings"]) == (False, 0, 1)
    else:
        assert out.endswith(f"{file}: 0 errors, 1 warning; --strict accepts none\n")


def test_a_file_without_warnings_passes(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(CLUSTERS)
    assert check(file, strict=True) == 0


def test_the_mode_of_a_file_does_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of a Secret are mounted with the mode that Kubernetes gives them."""
    file = tmp_path / "mm2.properties"
    file.write_text(f"{CLUSTERS}listeners = http://127.0.0.1:1\nmm2.rest.admin.token = 0123456789abcdef\n")
    file.chmod(0o644)
    assert check(file, strict=True) == 0
    assert "warning" in capsys.readouterr().out


def warnings_of(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the warnings of a file. Its errors can be about files of the machine that it is for."""
    for name in re.findall(r"\$\{env:(\w+)\}", text):
        monkeypatch.setenv(name, "0123456789abcdef")
    return [str(problem) for problem in load(path).problems if problem.is_warning and not problem.is_temporary]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_shipped_files_pass(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert warnings_of(path, path.read_text("iso-8859-1"), monkeypatch) == []


def test_whole_files_in_the_documentation_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mm2.properties"
    checked = 0
    for page in (*ROOT.glob("docs/**/*.md"), ROOT / "README.md"):
        for block in re.findall(r"```(?:properties)?\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            if re.search(r"^clusters *=", block, re.MULTILINE) and "bootstrap.servers" in block:
                file.write_text(block, "utf-8")
                assert warnings_of(file, block, monkeypatch) == [], page
                checked += 1
    assert checked >= 3


def test_no_shipped_unit_is_strict() -> None:
    """A file that was accepted must be accepted at the next start, too."""
    files = [path for path in ROOT.glob("deploy/**/*") if path.is_file() and path.suffix not in (".json", ".md")]
    assert len(files) > 10
    assert not [path for path in files if CALLS.search(path.read_text("utf-8", errors="replace"))]
