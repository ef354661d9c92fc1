"""``python -m tests.bench.links``: how much of a long link mm2 and Java use, with defaults. Needs root and Linux.

The brokers are in one network namespace and the mirror in another one. Between them are two links: one without delay,
to the listener of the near cluster, and the long one, to that of the far cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mm2.core.settings.client import SecurityProtocol
from tests.bench.end_offsets import EndOffsets
from tests.bench.links.rows import ROWS, Far, Row
from tests.bench.links.wire import far, namespace, near
from tests.bench.screen import Screen
from tests.bench.tools import JAVA, OURS, RunningTool, Tool
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.listeners import Listener
from tests.lab.records import Outgoing, Writer
from tests.lab.waiting import GaveUp

OUT = ROOT / "build" / "links.json"
BROKERS, NODE = "mm2-brokers", "mm2-node"  # namespaces
FAR_NETWORK, NEAR_NETWORK = "10.231.1", "10.231.2"
LINK = "LINK"  # the listener that the mirror uses

VALUE_BYTES = 1_000
STARTS_WITHIN = 120.0  # seconds
SETTLES_S = 3.0  # after the first record: slow start, and the first measures of the link
LASTS_S = 25.0  # seconds: a slow mirror is not waited for
LOOKS_EVERY_S = 0.1
INSIDE = "MM2_BENCH_INSIDE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What was copied after the first seconds: bytes of values, in seconds, with CPU-seconds of the mirror."""

    row: str
    tool: str
    value_bytes: int
    seconds: float
    cpu_seconds: float
    connections: int
    share: float

    @property
    def rate(self) -> float:
        return self.value_bytes / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Away(Tool):
    """A mirror in the namespace of nodes."""

    def settings(self, source: KafkaCluster, target: KafkaCluster, topic: str) -> dict[str, str]:
        upstream, downstream = self._aliases
        seen = {
            f"{upstream}.bootstrap.servers": source.bootstrap_of(LINK),
            f"{downstream}.bootstrap.servers": target.bootstrap_of(LINK),
        }
        return {**super(_Away, self).settings(source, target, topic), **seen}


def _away(tool: Tool) -> _Away:
    def command(file: Path) -> tuple[str, ...]:
        return ("ip", "netns", "exec", NODE, *tool.command(file))

    return _Away(name=tool.name, title=tool.title, command=command)


TOOLS = {"ours": _away(OURS), "java": _away(JAVA)}


def main() -> int:
    """Run the selected rows. Return 0, or 1 if a mirror failed."""
    options = _options().parse_args()
    if INSIDE not in os.environ:
        return _with_namespaces(sys.argv[1:])
    screen = Screen(Console())
    rates: list[Rate] = []
    failed = False
    for row in (replace(one, megabytes=options.megabytes or one.megabytes) for one in ROWS):
        if not re.search(options.only, row.name):
            continue
        with far(BROKERS, NODE, FAR_NETWORK, row.link), _clusters(row) as (source, target):
            _write(row, source, screen)
            for name in options.tools:
                try:
                    rates.append(_measure(row, TOOLS[name], source, target, screen))
                except GaveUp as error:
                    failed = True
                    screen.say(f"{row.name}: {name} failed: {error}")
                _save(rates, options.out)
    screen.say(_table(rates))
    return 1 if failed else 0


def _with_namespaces(arguments: list[str]) -> int:
    with namespace(BROKERS), namespace(NODE), near(BROKERS, NODE, NEAR_NETWORK):
        command = ("ip", "netns", "exec", BROKERS, sys.executable, "-m", "tests.bench.links", *arguments)
        return subprocess.run(command, check=False, env={**os.environ, INSIDE: "1"}).returncode


@contextmanager
def _clusters(row: Row) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    hosts = {True: f"{FAR_NETWORK}.1", False: f"{NEAR_NETWORK}.1"}
    with ExitStack() as ends:
        found = []
        for side in Far:
            listener = Listener(protocol=SecurityProtocol.PLAINTEXT, name=LINK, host=hosts[side is row.far])
            properties = {"auto.create.topics.enable": "false", **(row.broker if side is row.far else {})}
            cluster = KafkaCluster(f"links-{side}", listeners=(listener,), properties=properties)
            found.append(ends.enter_context(cluster))
        yield found[0], found[1]


def _write(row: Row, source: KafkaCluster, screen: Screen) -> None:
    source.create_topic(row.name, row.partitions)
    records = row.megabytes * 1_000_000 // VALUE_BYTES
    batches: dict[str, str | int | float | bool] = {"linger.ms": 50, "batch.size": 500_000, "batch.num.messages": 500}
    writer = Writer(source.bootstrap, settings=batches)
    value = os.urandom(VALUE_BYTES)
    with screen.phase(f"{row.name}: writing the backlog", records) as report_progress:
        for number in range(records):
            writer.send(row.name, Outgoing(partition=number % row.partitions, key=None, value=value))
            if number % 10_000 == 0:
                report_progress(number)
        writer.flush()


def _measure(row: Row, tool: _Away, source: KafkaCluster, target: KafkaCluster, screen: Screen) -> Rate:
    records = row.megabytes * 1_000_000 // VALUE_BYTES
    with (
        RunningTool(tool, source, target, row.name) as running,
        screen.phase(f"{row.name} ({row.link}): {tool.title}", records) as report_progress,
    ):
        ends = EndOffsets(target, running.remote_topic)
        began = time.monotonic()
        first: float | None = None
        since: tuple[float, int, float] | None = None
        connections = 0
        while True:
            time.sleep(LOOKS_EVERY_S)
            now, present = time.monotonic(), ends.refresh()
            report_progress(present)
            running.check()
            if present and first is None:
                first = now
            if first is None:
                if now - began > STARTS_WITHIN:
                    raise GaveUp(f"no record within {STARTS_WITHIN:g} s\n{running.report()}")
                continue
            if since is None and now - first >= SETTLES_S:
                since = now, present, running.tree.cpu_seconds()
            connections = max(connections, _connections())
            if present >= records or now - first >= LASTS_S:
                break
        if since is None:
            raise GaveUp(f"{row.megabytes} MB were copied within {SETTLES_S:g} s: too few to measure")
        at, before, cpu = since
        seconds, copied = now - at, (present - before) * VALUE_BYTES
        cpu = running.tree.cpu_seconds() - cpu
        running.stop()
    share = copied / seconds / row.link.rate
    screen.say(f"{row.name}: {tool.title}: {copied / seconds / 1e6:.1f} MB/s, {share:.0%} of the link")
    return Rate(
        row=row.name, tool=tool.name, value_bytes=copied, seconds=seconds, cpu_seconds=cpu, connections=connections,
        share=share,
    )  # fmt: skip


def _connections() -> int:
    """Return how many connections the mirror has to the far cluster."""
    listed = subprocess.run(
        ("ip", "netns", "exec", NODE, "ss", "-Htn", "state", "established", "dst", f"{FAR_NETWORK}.1"),
        capture_output=True,
        text=True,
        check=False,
    )
    return len(listed.stdout.splitlines())


def _save(rates: list[Rate], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    known = [{name: getattr(one, name) for name in one.__dataclass_fields__} for one in rates]
    file.write_text(json.dumps(known, indent=2) + "\n")


def _table(rates: list[Rate]) -> Table:
    table = Table("row", "mirror", "MB/s", "of the link", "times Java", "connections", "CPU-s a GB")
    java = {one.row: one.rate for one in rates if one.tool == JAVA.name}
    for one in rates:
        beside = java.get(one.row)
        table.add_row(
            one.row,
            one.tool,
            f"{one.rate / 1e6:.1f}",
            f"{one.share:.0%}",
            f"{one.rate / beside:.1f}" if beside else "",
            str(one.connections),
            f"{one.cpu_seconds / (one.value_bytes / 1e9):.1f}",
        )
    return table


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.links", description="Use of a long link.")
    parser.add_argument("--only", default=".", help="regular expression for the names of rows")
    parser.add_argument("--tools", nargs="+", choices=tuple(TOOLS), default=tuple(TOOLS))
    parser.add_argument("--megabytes", type=int, help="size of the backlog, instead of that of the row")
    parser.add_argument("--out", type=Path, default=OUT, help="JSON file for the results (default: build/links.json)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
