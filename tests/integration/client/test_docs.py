"""The examples of docs/reference/client.md, each compared to the output shown below it."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import Segment, TopicIds
from tests.lab.checkpoints import Checkpoint, write_checkpoints
from tests.lab.cluster import KafkaCluster
from tests.lab.ports import HOST
from tests.lab.records import Outgoing, write

PAGE = Path(__file__).parents[3] / "docs/reference/client.md"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n(?:```text\n(?P<output>.*?)```\n)?", re.DOTALL)
ADDRESS = "kafka-b.example.com:9092"
TOPICS = ("heartbeats", "A.heartbeats", "A.C.heartbeats", "A.C.prices", "A.checkpoints.internal", "local")
COPIED = 200  # records of each partition of A.orders
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
        cluster.create_topic("A.orders", 2)
        write_checkpoints(cluster, "A.checkpoints.internal", CHECKPOINTS)
        cluster.create_topic("mm2-exact-offsets.A.internal", config={"cleanup.policy": "compact"})
        for partition in (0, 1):
            write(cluster.bootstrap, "A.orders", [Outgoing(value=b"v", partition=partition)] * COPIED)
            segment = Segment(
                topic_partition=TopicPartition("orders", partition),
                sequence=0,
                era=0,
                topic_ids=TopicIds(),
                before=CopiedUpTo(),
                through=COPIED,
                ranges=(CopiedRange(0, 0, COPIED),),
            )
            written = Outgoing(key=segment.key(), value=segment.value())
            write(cluster.bootstrap, "mm2-exact-offsets.A.internal", [written])
        yield cluster


@pytest.mark.parametrize("number", range(len(examples())))
def test_example(number: int, b: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an example in a directory with an mm2.properties; only the address is replaced."""
    code, expected = examples()[number]
    monkeypatch.chdir(tmp_path)
    Path("mm2.properties").write_text(
        f"clusters = A, B\nA.bootstrap.servers = {HOST}:1\nB.bootstrap.servers = {b.bootstrap}\nA->B.enabled = true\n"
    )
    output_buffer = io.StringIO()
    with contextlib.redirect_stdout(output_buffer):
        exec(compile(code.replace(ADDRESS, b.bootstrap), PAGE.name, "exec"), {"__name__": "__main__"})
    assert output_buffer.getvalue() == expected


def test_all_examples_of_the_page_run() -> None:
    assert len(examples()) == PAGE.read_text("utf-8").count("```python") >= 6
    assert sum(bool(output) for _, output in examples()) == PAGE.read_text("utf-8").count("```text")
