"""What bad files are answered with, word by word. ``MM2_WRITE_GOLDEN=1 pytest tests/golden/test_config_problems.py``
writes the answers anew: read them before you keep them."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.check import check_file

FILES = Path(__file__).parent / "config" / "bad"
HARMLESS = {
    "trailing-comma",
    "trailing-blanks",
    "unused-alias",
    "alias-under-identity",
    "legacy",
    "duplicates",
    "not-yet",
}
HARMLESS |= {"zookeeper-idle", "same-brokers"}
HARMLESS |= {"unknown-keys", "places", "own-class-keys", "loop-perhaps", "checkpoints-off", "rest-admin-unseen"}


@pytest.fixture(autouse=True)
def beside_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("MM2_GOLDEN_HOST", "a.example.com")
    monkeypatch.syspath_prepend(FILES.parent / "classes")


def compare(name: str, text: str) -> None:
    golden = FILES / f"{name}.txt"
    if os.environ.get("MM2_WRITE_GOLDEN"):
        golden.write_text(text, "utf-8")
    assert text == golden.read_text("utf-8")


@pytest.mark.parametrize("name", sorted(path.stem for path in FILES.glob("*.properties")))
def test_answer(name: str) -> None:
    out = StringIO()
    code = check_file(Path(f"{name}.properties"), (), out)
    compare(name, out.getvalue())
    assert code == (0 if name in HARMLESS else 2)
    assert "sesame" not in out.getvalue()


@pytest.mark.parametrize(
    ("name", "path"),
    [("missing", "no-such.properties"), ("directory", "."), ("unreadable", "n" * 300)],
)
def test_no_file(name: str, path: str) -> None:
    out = StringIO()
    assert check_file(Path(path), (), out) == 2
    compare(f"file-{name}", out.getvalue())


def test_nothing_ends_in_the_named_clusters() -> None:
    out = StringIO()
    assert check_file(Path("../fan-out.properties"), ("central,lima", "rome"), out) == 2
    compare("clusters-leave-nothing", out.getvalue())


def test_a_stranger_among_the_named_clusters() -> None:
    out = StringIO()
    assert check_file(Path("../fan-out.properties"), ("lima", "rome"), out) == 0
    compare("clusters-with-a-stranger", out.getvalue())
