from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from mm2.cli.commands import execute, mm2_app

FILE = """\
clusters = A, B
A.bootstrap.servers = a1:1,a2:1
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders, payments-.*
A->B.groups = .*
B->A.emit.heartbeats.enabled = false
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    return file


def printed(file: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert execute(mm2_app(), ["acls", str(file), *options]) == 0
    return capsys.readouterr().out.splitlines()


def commands(lines: list[str]) -> list[list[str]]:
    return [shlex.split(line) for line in lines if line.startswith("kafka-acls.sh ")]


def test_commands_by_cluster_and_role(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(file, "--flow", "A->B", capsys=capsys)
    assert lines[0] == "# flow A->B"
    at = lines.index("# cluster A: read the source")
    assert lines[at + 1 : at + 4] == [
        "# READ: find and fetch the topics",
        "# DESCRIBE_CONFIGS: create remote topics with the same configuration, and sync it",
        "kafka-acls.sh --bootstrap-server a1:1,a2:1 --add --allow-principal User:mm2 --operation READ"
        " --operation DESCRIBE_CONFIGS --topic orders --topic heartbeats",
    ]
    assert any(line.endswith("--topic payments- --resource-pattern-type prefixed") for line in lines)
    assert any(line.endswith("--operation DESCRIBE --group '*'") for line in lines)
    assert any(line.endswith("--operation ALTER --cluster") for line in lines)
    assert any(line.endswith("--operation WRITE --transactional-id connect-cluster-A-mm2") for line in lines)
    assert all(not line or line.startswith(("#", "kafka-acls.sh ")) for line in lines)
    client = lines.index("# cluster B: client library, for the principals of programs that use it")
    assert all(line.startswith("# ") for line in lines[client:] if line)
    assert "--allow-principal User:CLIENT" in lines[client + 2]


def test_principals(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def principals(*options: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for words in commands(printed(file, *options, capsys=capsys)):
            found.setdefault(words[2][0], set()).add(words[5])
        return found

    assert principals("--principal", "User:x") == {"a": {"User:x"}, "b": {"User:x"}}
    assert principals("--principal", "B=User:y") == {"a": {"User:mm2"}, "b": {"User:y"}}
    assert principals("--principal", "B=User:y", "User:x") == {"a": {"User:x"}, "b": {"User:y"}}
    name = "User:CN=mm2 a,O='é'"
    assert principals("--principal", name, f"B={name}") == {"a": {name}, "b": {name}}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--principal", "C=User:x"), "no flow has a cluster C. Clusters: A, B."),
        (("--principal", "mm2"), "--principal mm2: a principal has a type and a name. Write User:NAME."),
        (("--principal", "A=mm2"), "--principal mm2: a principal has a type and a name. Write User:NAME."),
        (("--principal", "A="), "a principal has a type and a name"),
        (("--flow", "A->C"), "has no flow A->C. Use one of its flows: A->B."),
    ],
)
def test_wrong_options(file: Path, options: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(mm2_app(), ["acls", str(file), *options]) == 2
    assert error in capsys.readouterr().err


def test_a_file_with_errors(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(FILE + "tasks.max = 0\n")
    assert execute(mm2_app(), ["acls", str(file)]) == 2
    assert "tasks.max = 0" in capsys.readouterr().out


def test_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads("\n".join(printed(file, "--json", capsys=capsys)))
    assert rows[0] == {
        "flow": "A->B",
        "cluster": "A",
        "role": "read the source",
        "principal": "User:mm2",
        "resourceType": "TOPIC",
        "patternType": "LITERAL",
        "name": "orders",
        "operation": "READ",
        "why": "find and fetch the topics",
    }
    assert {row["principal"] for row in rows if row["role"] == "client library"} == {None}


def test_a_custom_policy_that_fails(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "failing_policy.py").write_text(
        "from mm2.core.policies import DefaultReplicationPolicy\n"
        "class Failing(DefaultReplicationPolicy):\n"
        "    def is_heartbeats_topic(self, topic):\n"
        "        raise ValueError('broken')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    file.write_text(FILE + "A->B.replication.policy.class = failing_policy:Failing\n")
    assert execute(mm2_app(), ["acls", str(file)]) == 1
    assert "broken" in capsys.readouterr().err
