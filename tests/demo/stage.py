"""The processes of the demo: two brokers, nodes with a copy of mm2.properties.example, and the writer."""

from __future__ import annotations

import re
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from tests.demo import queried
from tests.demo.demo_nodes import DemoNodes
from tests.demo.events import Stream, streams
from tests.demo.picture import Look, Picture, picture
from tests.demo.screen import Screen
from tests.demo.writer import EventWriter
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.node import Node
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.verify import compare
from tests.lab.waiting import wait_until

EXAMPLE = ROOT / "mm2.properties.example"
PORT_A, PORT_B, PORT_REST = 19092, 29092, 8083  # as in the example
COPIED_WITHIN = 60.0  # seconds from the last record written to the last one copied
COMPARED_UP_TO = 1_000_000  # records compared on both sides; beyond that only their number is
RATES_OVER = 5.0  # seconds: lanes report once a second, so that two pictures can show the same counters
SPARK_UI = re.compile(r"Spark UI\s+(https?://\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The result of one topic: records written, records on B, and their comparison by an independent client."""

    topic: str
    written: int
    copied: int
    finding: str
    right: bool


class Stage:
    """A context manager that starts all processes and stops them, also after an error."""

    def __init__(self, screen: Screen, seed: int, nodes: int, *, sql: bool = False) -> None:
        self._screen = screen
        self._seed = seed
        self._node_count = nodes
        self.sql = sql
        self._streams = streams(sql=sql)
        self._samples: queried.Samples | None = None
        self._ends = ExitStack()
        self._looks: deque[Look] = deque()

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def _set_up(self) -> None:
        begun = time.monotonic()
        self._a = self._ends.enter_context(KafkaCluster("demo-a", first_port=PORT_A))
        self._b = self._ends.enter_context(KafkaCluster("demo-b", first_port=PORT_B))
        self._screen.say(f"Kafka {self._a.version}: A on {self._a.bootstrap}, B on {self._b.bootstrap}")
        for stream in self._streams:
            self._a.create_topic(stream.topic, stream.partitions, config=stream.config)
        self.writer = EventWriter(self._a.bootstrap, self._seed, self._streams)
        self.nodes = DemoNodes([self._start(number) for number in range(self._node_count)], self._screen.say)
        for node in self.nodes.nodes:
            node.wait_running()
            self._screen.say(f"{node.name} is running, {time.monotonic() - begun:.0f} s after the start")

    def _start(self, number: int) -> Node:
        port = reserve_port(PORT_REST + number)
        self._ends.callback(release_port, port)
        name = "demo-node" if self._node_count == 1 else f"demo-node-{number + 1}"
        node = self._ends.enter_context(Node(self._properties(port), name=name))
        self._screen.say(f"starting {name} (Spark needs a few seconds); log: {node.process.log}")
        return node

    def _properties(self, port: int) -> str:
        """Return the text of the example with ports that are free, and with the query."""
        text = EXAMPLE.read_text() + (queried.PROPERTIES if self.sql else "")
        for wish, got in (
            (f"{HOST}:{PORT_A}", self._a.bootstrap),
            (f"{HOST}:{PORT_B}", self._b.bootstrap),
            (f"{HOST}:{PORT_REST}", f"{HOST}:{port}"),
        ):
            if wish != got:
                self._screen.say(f"{wish} is taken, using {got}")
                text = text.replace(wish, got)
        return text

    def links(self) -> dict[str, str]:
        """Return URLs and commands to watch the demo with, by name."""
        node = self.nodes.nodes[0]
        spark = SPARK_UI.search(node.process.output())
        return {
            "Flows": f"{node.url}/flows",
            "Health": f"{node.url}/health",
            "Metrics": f"{node.url}/metrics",
            **({"Spark UI": spark.group(1)} if spark else {}),
            "Status": f".venv/bin/mm2 status {node.url} --watch",
            **{f"Kill {one.name}": f"kill -9 {one.process.pid}" for one in self.nodes.nodes if self._node_count > 1},
        }

    def picture(self) -> Picture | None:
        """Return the current table; None if no node answers. Raises the error of the writer, if any."""
        self.writer.check()
        now = self.nodes.look(time.monotonic())
        if now is None:
            return None
        self._looks.append(now)
        while len(self._looks) > 2 and self._looks[1].at <= now.at - RATES_OVER:
            self._looks.popleft()
        shown = picture(self._looks[0], now, self.writer.written(), self.nodes.lines())
        if not self.sql:
            return shown
        self._samples = self._samples or queried.Samples(self._a.bootstrap, self._b.bootstrap)
        return replace(shown, samples=self._samples.newest())

    def wait_until_copied(self) -> None:
        """Wait until B has as many records as were written, without those to drop. Raises GaveUp."""
        for topic, count in self.writer.expected().items():
            remote = f"A.{topic}"
            wait_until(
                lambda remote=remote, count=count: end_offset_sum(self._b.bootstrap, remote) >= count,  # type: ignore[misc]
                COPIED_WITHIN,
                f"{remote} holds {count} records of {topic}",
            )

    def judge(self) -> list[Copied]:
        """Compare every topic with its copy, using a client that is independent of this project. What the query should
        do is computed without Spark."""
        written, expected = self.writer.written(), self.writer.expected()
        whole = sum(written.values()) <= COMPARED_UP_TO
        return [self._judge(stream, written[stream.topic], expected[stream.topic], whole) for stream in self._streams]

    def _judge(self, stream: Stream, written: int, expected: int, whole: bool) -> Copied:
        topic = stream.topic
        copied = end_offset_sum(self._b.bootstrap, f"A.{topic}")
        finding = "same number of records" if copied == expected else f"{expected - copied} records differ"
        right = copied == expected > 0
        if whole:
            source = read_topic(self._a.bootstrap, topic)
            wanted = source if stream.query is None else queried.expected_copy(source)
            verdict = compare(wanted, read_topic(self._b.bootstrap, f"A.{topic}"))
            finding = str(verdict)
            right = verdict.complete if self.nodes.killed else right and verdict.exact
            if stream.query is not None and right:
                finding = f"{written - expected} test orders dropped, all other card numbers masked"
        return Copied(topic=topic, written=written, copied=copied, finding=finding, right=right)
