"""Output on terminals that are not UTF-8."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from mm2.cli.commands import execute, mm2_app
from tests.unit.config.files import CLUSTERS


@pytest.mark.parametrize("encoding", ["iso-8859-1", "ascii", "utf-8"])
@pytest.mark.parametrize("words", [("check",), ("check", "--json"), ("explain",), ("acls",)])
def test_every_text_can_be_printed(tmp_path: Path, encoding: str, words: tuple[str, ...]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"{CLUSTERS}A->B.topics = \\u4e2d.*\ncompletely.unknown = \\u4e2d\n")
    written = BytesIO()
    terminal = TextIOWrapper(written, encoding=encoding)  # as with PYTHONIOENCODING
    with redirect_stdout(terminal):
        assert execute(mm2_app(), [words[0], str(file), *words[1:]]) == 0
    shown = "\u4e2d".encode() if encoding == "utf-8" else b"\\u4e2d"
    assert words[0] == "acls" or "--json" in words or shown in written.getvalue()
