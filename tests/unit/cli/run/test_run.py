"""What ``mm2 run`` prints before the node starts."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from mm2.cli.file.check import check_file
from mm2.cli.run.run import run
from mm2.program import node_program
from tests.golden.vectors import java_vectors
from tests.unit.config.files import CLUSTERS

CHANGING = [one["keys"] for one in java_vectors("ignored-keys") if one["differs"] and "transforms" not in one["keys"]]
DONE = 7


@pytest.mark.parametrize("keys", CHANGING, ids=lambda keys: next(iter(keys)))
def test_a_start_warns_of_keys_with_which_java_copies_something_else(
    tmp_path: Path, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same warning as that of ``mm2 check``, and the node runs."""
    monkeypatch.setattr(node_program, "run", lambda _taken, _settings: DONE)
    file = tmp_path / "mm2.properties"
    file.write_text(CLUSTERS + "".join(f"A->B.{key} = {value}\n" for key, value in keys.items()), "utf-8")
    assert run(file) == DONE
    printed = capsys.readouterr().err
    for key in keys:
        assert f"warning: A->B.{key} = " in printed
    checked = StringIO()
    assert check_file(file, (), checked) == 0
    assert printed in checked.getvalue()
