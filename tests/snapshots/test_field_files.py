"""Files that users have published or reported, shortened and with invented names: how each of them is judged.

The first two lines of a file say what is odd and what the verdict is; the few that cannot have a comment are in
`VERDICTS`. ``MM2_WRITE_SNAPSHOTS=1`` rewrites the outputs, as in test_config_problems.py.
"""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.file.check import check_file

FILES = Path(__file__).parent / "config" / "field"
VERDICTS = {
    "C28": "an error: it is a resource of Strimzi, and the lines for this program are printed",
    "C29": "an error: it is the JSON of a connector",
    "C31b": "an error: the first line begins with a byte order mark, which Java reads as part of the key",
    "C31c": "an error: it is UTF-16",
}


def verdict(path: Path) -> str:
    lines = path.read_text("iso-8859-1").splitlines()
    found = [line.removeprefix("# Verdict: ") for line in lines if line.startswith("# Verdict: ")]
    return found[0] if found else VERDICTS[path.stem]


@pytest.mark.parametrize("name", sorted(path.stem for path in FILES.glob("*.properties")))
def test_verdict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("MM2_GOLDEN_HOST", "a.example.com")
    out = StringIO()
    code = check_file(Path(f"{name}.properties"), (), out)
    snapshot = FILES / f"{name}.txt"
    if os.environ.get("MM2_WRITE_SNAPSHOTS"):
        snapshot.write_text(out.getvalue(), "utf-8")
    assert out.getvalue() == snapshot.read_text("utf-8")
    said = verdict(FILES / f"{name}.properties")
    assert code == (0 if said.startswith("starts") else 2), said
    assert ("warning:" in out.getvalue()) == ("warning" in said) or code == 2, said
    assert "sesame" not in out.getvalue()


def test_no_public_file_is_missing() -> None:
    assert len(list(FILES.glob("*.properties"))) == 34
