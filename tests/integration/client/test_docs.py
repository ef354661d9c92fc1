"""The examples of docs/reference/client.md, each compared to the output shown below it."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.checkpoints import Checkpoint, write_checkpoints
from tests.lab.cluster import KafkaCluster

PAGE = Path(__file__).parents[3] / "docs/reference/client.md"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n(?:```text\n(?P<output>.*?)```\n)?", re.DOTALL)
ADDRESS = "kafka-b.example.com:9092"
TOPICS = ("heartbeats", "A.heartbeats", "A.C.heartbeats", "A.orders", "A.C.prices", "A.checkpoints.internal", "local")
CHECKPOINTS = (
    Checkpoint(group="billing", topic="A.orders", partition=0, upstream=100, downstream=110),
    Checkpoint(group="billing", topic="A.orders", partition=1, upstream=95, downstream=95),
    Checkpoint(group="billing", topic="A.orders", partition=0, upstream=110, downstream=120),
    Checkpoint(group="billing-audit", topic="A.orders", partition=0, upstream=7, downstream=7),
    Checkpoint(group="unbilled", topic="A.orders", partition=0, upstream=1, downstream=1),
)


def examples() -> list[tuple[str, str]]:
    return [(one["code"], one["output"] or "") for one in EXAMPLE.finditer(PAGE.read_text("utf-8"))]


@pytest.fixture(scope="module")
def b() -> Iterator[KafkaCluster]:
    """The cluster that the page describes."""
    with KafkaCluster("b") as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic)
        write_checkpoints(cluster, "A.checkpoints.internal", CHECKPOINTS)
        yield cluster


@pytest.mark.parametrize("number", range(len(examples())))
def test_example(number: int, b: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an example in a directory with an mm2.properties; only the address is replaced."""
    code, expected = examples()[number]
    monkeypatch.chdir(tmp_path)
    Path("mm2.properties").write_text(f"clusters = A, B\nB.bootstrap.servers = {b.bootstrap}\n")
    output_buffer = io.StringIO()
    with contextlib.redirect_stdout(output_buffer):
        exec(compile(code.replace(ADDRESS, b.bootstrap), PAGE.name, "exec"), {"__name__": "__main__"})
    assert output_buffer.getvalue() == expected


def test_all_examples_of_the_page_run() -> None:
    assert len(examples()) == PAGE.read_text("utf-8").count("```python") >= 6
    assert sum(bool(output) for _, output in examples()) == PAGE.read_text("utf-8").count("```text")
