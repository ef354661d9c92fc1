"""``mm2 translate`` as far as it gets without clusters."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mm2.cli.commands import execute, mm2_app

FILE = """clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
A->B.topics = orders.*
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    return str(file)


ONE = ("--topic", "orders", "--partition", "0")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ((), "say which positions: --topic T --partition P with --offset N or --time T, --positions FILE, or --groups"),
        ((*ONE, "--offset", "1", "--groups", ".*"), "say which positions: "),
        (("--groups", ".*", "--offset", "1"), "--partition, --offset and --time belong to --topic."),
        (
            ("--groups", ".*", "--reverse"),
            "--groups are groups of the source, so there is no --reverse: ",
        ),
        (
            ("--groups", "("),
            "--groups ( is not a regular expression: missing ), ",
        ),
        (("--topic", "orders", "--offset", "1"), "--topic needs --partition P."),
        (ONE, "--topic needs either --offset N or --time T."),
        ((*ONE, "--offset", "1", "--time", "5"), "--topic needs either --offset N or --time T."),
        ((*ONE, "--offset", "-1"), "--offset -1 is not an offset: write for example --offset 0"),
        (("--topic", "orders", "--partition", "x", "--offset", "1"), "--partition x is not a partition"),
        (
            (*ONE, "--time", "yesterday"),
            "--time yesterday must be a time with a time zone, such as 2026-11-01T00:00:00Z",
        ),
        ((*ONE, "--time", "latest"), "--time latest must be a time with a time zone"),
        ((*ONE, "--time", "2026-11-01"), "--time 2026-11-01 must be a time with a time zone"),
        ((*ONE, "--offset", "1", "--flow", "B->C"), "no flow 'B->C' in the file. Enabled flows: A->B."),
        (("--positions", "/no/such"), "--positions /no/such: cannot be read: No such file or directory."),
    ],
)
def test_wrong_options(file: str, options: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), ["translate", file, *options]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"mm2 translate: {error}")
    assert output.err.count("\n") == 1


def test_wrong_positions_are_shown_with_line_and_fix(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = tmp_path / "positions"
    positions.write_text("orders:0:1\norders:0\n\norders:-1:0\n")
    expected = """PLACE:2: error: orders:0 is not a position
    fix: write topic:partition:offset, such as orders:0:123
PLACE:4: error: the partition of orders must be a whole number from 0 to 2147483647, not -1
    fix: write topic:partition:offset, such as orders:0:123
PLACE: 2 errors
"""
    assert execute(mm2_app(), ["translate", file, "--positions", str(positions)]) == 2
    assert capsys.readouterr() == ("", expected.replace("PLACE", str(positions)))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(positions.read_bytes())))
    assert execute(mm2_app(), ["translate", file, "--positions", "-"]) == 2
    assert capsys.readouterr() == ("", expected.replace("PLACE", "standard input"))
    positions.write_text("x\n" * 30)
    assert execute(mm2_app(), ["translate", file, "--positions", str(positions)]) == 2
    assert capsys.readouterr().err.endswith(f"{positions}: 30 errors, of which the first 20 are shown\n")
    positions.write_bytes(b"\xff")
    assert execute(mm2_app(), ["translate", file, "--positions", str(positions)]) == 2
    assert capsys.readouterr() == ("", f"mm2 translate: --positions {positions} is not UTF-8.\n")


@pytest.mark.parametrize(("reverse", "cluster"), [((), "A"), (("--reverse",), "B")])
def test_mirror_maker_positions_of_another_cluster(
    file: str, tmp_path: Path, reverse: tuple[str, ...], cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    positions = tmp_path / "positions"
    positions.write_text(
        '{"offsets":[{"partition":{"cluster":"C","topic":"orders","partition":0},"offset":{"offset":1}}]}'
    )
    assert execute(mm2_app(), ["translate", file, "--positions", str(positions), *reverse]) == 2
    assert f":1: error: cluster C must be {cluster}, whose positions are translated\n" in capsys.readouterr().err


def test_no_cluster_answers(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), ["translate", file, *ONE, "--offset", "1"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("mm2 translate: cluster B is unreachable, and only it has the exact offset map: ")
    assert output.err.count("\n") == 1
