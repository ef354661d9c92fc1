"""``python -m tests.bench.assignment``: time to compute assignments, without any cluster.

The limit for 10,000 partitions is 200 ms. The tests count moves and calls instead, which do not depend on the machine.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from functools import partial

from rich.console import Console
from rich.table import Table

from mm2.core.assignment.partition_assignment import spread
from mm2.core.assignment.rebalance import rebalance
from mm2.core.assignment.task_placement import MemberState, TaskAssignments
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.naming.names import TopicPartition

PARTITIONS = 10_000
SLOTS = (1, 8, 100)
TASKS = 1_000
NODES = 50
TIMES = 5  # runs, of which the best counts: the others were disturbed
NOW_MS = 0


def best(work: Callable[[], object]) -> float:
    """Return the milliseconds of the fastest of several runs."""
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took) * 1_000


def partitions(table: Table, count: int, chance: random.Random) -> None:
    """Measure partitions to source tasks: initially, unchanged, with more partitions, other loads, all in one task."""
    everything = [TopicPartition(f"orders.{number // 4:05d}.v1", number % 4) for number in range(count)]
    more = [*everything, *(TopicPartition("new", number) for number in range(100))]
    weights = {partition: 50 + int(25 * chance.paretovariate(1.2)) for partition in everything}
    others = {partition: 50 + int(25 * chance.paretovariate(1.2)) for partition in everything}
    for tasks_max in SLOTS:
        first = spread(everything, tasks_max=tasks_max, weights=weights)
        before = {partition: source_task for source_task, found in enumerate(first) for partition in found}
        crowd = dict.fromkeys(everything, 0)

        cases: list[tuple[str, list[TopicPartition], dict[TopicPartition, int], dict[TopicPartition, int]]] = [
            ("initial", everything, weights, {}),
            ("unchanged", everything, weights, before),
            ("100 more partitions", more, weights, before),
            ("other loads", everything, others, before),
            ("all in one source task", everything, others, crowd),
        ]
        for name, some, by, known in cases:
            work = partial(spread, some, tasks_max=tasks_max, previous=known, weights=by)
            moved = sum(
                known.get(one, source_task) != source_task for source_task, found in enumerate(work()) for one in found
            )
            table.add_row(
                f"{len(some):,} partitions over {tasks_max} source tasks", name, f"{best(work):.0f}", f"{moved:,}"
            )


def tasks(table: Table, count: int, nodes: int, chance: random.Random) -> None:
    """Measure tasks to nodes: initially, unchanged, after a node failed, after a node joined."""
    weights = {TaskId(TaskKind.SOURCE, number): chance.randint(50, 500) for number in range(count)}
    fresh = {
        f"m-{number}": MemberState(node=f"n-{number}", capacity=4, kinds=frozenset(TaskKind.ALL), epoch=0)
        for number in range(nodes)
    }
    first = rebalance(weights, fresh, before=TaskAssignments(), epoch=1, now_ms=NOW_MS)
    settled = {
        one: MemberState(
            node=member.node, capacity=4, kinds=frozenset(TaskKind.ALL), holds=frozenset(first.run(one)), epoch=1
        )
        for one, member in fresh.items()
    }
    fewer = {one: member for one, member in settled.items() if one != "m-0"}
    more = {**settled, "m-new": MemberState(node="n-new", capacity=4, kinds=frozenset(TaskKind.ALL), epoch=1)}
    cases = [
        ("initial", fresh, TaskAssignments()),
        ("unchanged", settled, first),
        ("a node failed", fewer, first),
        ("a node joined", more, first),
    ]
    for name, members, before in cases:
        work = partial(rebalance, weights, members, before=before, epoch=2, now_ms=NOW_MS)
        after = work()
        moved = sum(
            before.places[task].owner != found.owner or found.next is not None
            for task, found in after.places.items()
            if task in before.places
        )
        table.add_row(f"{count:,} tasks on {len(members)} nodes", name, f"{best(work):.0f}", f"{moved:,}")


def main() -> int:
    """Run the benchmark and print its results; there are no limits."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.assignment", description=(__doc__ or "").split(": ")[1]
    )
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    options = parser.parse_args()
    chance = random.Random(1)
    table = Table("what", "case", "ms", "moved", title="computing assignments")
    partitions(table, options.partitions, chance)
    tasks(table, TASKS, NODES, chance)
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
