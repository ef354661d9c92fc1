"""The output of `mm2 check` for invalid files.

``MM2_WRITE_SNAPSHOTS=1 pytest tests/snapshots/test_config_problems.py`` rewrites the snapshots; read them before you
commit them.
"""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.file.check import check_file

FILES = Path(__file__).parent / "config" / "bad"
GOOD = Path(__file__).parents[1] / "golden" / "config"  # the files that the golden vectors of Java use
HARMLESS = {
    "trailing-comma",
    "trailing-blanks",
    "unused-alias",
    "alias-under-identity",
    "legacy",
    "duplicates",
    "nothing-matches",
    "no-flow-enabled",
    "quotes-and-brackets",
    "negative-intervals",
}
HARMLESS |= {"byte-order-mark-harmless", "zookeeper-idle", "same-brokers"}
HARMLESS |= {"alias-keys-empty", "alias-with-own-separator"}
HARMLESS |= {"lost-backslashes", "separators-of-topics", "topics-all-excluded", "near-misses-accepted"}
HARMLESS |= {
    "own-class-keys",
    "queries-without-topics",
    "loop-perhaps",
    "checkpoints-off",
    "rest-admin-unseen",
}


@pytest.fixture(autouse=True)
def in_example_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("MM2_GOLDEN_HOST", "a.example.com")
    monkeypatch.syspath_prepend(FILES.parent / "classes")


def compare(name: str, text: str) -> None:
    snapshot = FILES / f"{name}.txt"
    if os.environ.get("MM2_WRITE_SNAPSHOTS"):
        snapshot.write_text(text, "utf-8")
    assert text == snapshot.read_text("utf-8")


@pytest.mark.parametrize("name", sorted(path.stem for path in FILES.glob("*.properties")))
def test_output(name: str) -> None:
    out = StringIO()
    code = check_file(Path(f"{name}.properties"), (), out)
    compare(name, out.getvalue())
    assert code == (0 if name in HARMLESS else 2)
    assert "sesame" not in out.getvalue()


@pytest.mark.parametrize(
    ("name", "path"),
    [("missing", "no-such.properties"), ("directory", "."), ("unreadable", "n" * 300)],
)
def test_missing_file(name: str, path: str) -> None:
    out = StringIO()
    assert check_file(Path(path), (), out) == 2
    compare(f"file-{name}", out.getvalue())


def test_no_flow_ends_in_the_selected_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOOD)
    out = StringIO()
    assert check_file(Path("fan-out.properties"), ("central,lima", "rome"), out) == 2
    compare("clusters-leave-nothing", out.getvalue())


def test_unknown_alias_in_the_selected_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOOD)
    out = StringIO()
    assert check_file(Path("fan-out.properties"), ("lima", "rome"), out) == 0
    compare("clusters-with-a-stranger", out.getvalue())
