from __future__ import annotations

from pathlib import Path

import pytest

from mm2.cli.file.explain import explain

FILE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\ntasks.max = 4\n"


def test_non_default_leaves_out_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    assert explain(file) == 0
    everything = capsys.readouterr().out
    assert explain(file, non_default=True) == 0
    changed = capsys.readouterr().out
    assert "  default\n" in everything
    assert "  default\n" not in changed
    assert "tasks.max = 4" in changed
    assert set(changed.splitlines()) < set(everything.splitlines())
    assert "    enabled = false" in everything
    assert "enabled = false" not in changed


def test_lines_that_all_clients_of_a_cluster_share_are_shown_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    assert explain(file, flow="A->B") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  line")[0].strip() for line in lines if "bootstrap.servers" in line] == [
        "bootstrap.servers = a:1",
        "bootstrap.servers = b:1",
    ]
