"""What a parallel run (pytest-xdist) plays where and when: files that stand on one costly thing go to one worker
together, and what is heavy runs beside what is light.

A fixture of a directory is made once in each worker that gets a file of that directory, and anew whenever the worker
comes back to it from elsewhere. Handed out file by file, the story of tests/parity, in which two programs take turns
for a minute and a half, was played five times in one run, and the node that most of tests/integration shares was
started ten times.
"""

from __future__ import annotations

from fnmatch import fnmatch

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

HEAVY = "gw0"  # xdist's name of the first worker

_ON_THE_SHARED_NODE = (
    *("copy", "discovery", "groups", "heartbeats", "internal_topics"),
    *("names", "offset_syncs", "offsets", "remote_topics", "topic_configs"),
)

STAGES: tuple[tuple[str, ...], ...] = (
    ("tests/faults/test_processes.py",),
    ("tests/faults/test_nodes.py",),
    ("tests/faults/test_spark_cluster.py",),
    ("tests/faults/test_zookeeper.py",),
    ("tests/integration/test_demo.py",),
    ("tests/integration/test_topologies.py",),
    ("tests/faults/test_nodes_cut_off.py",),
    ("tests/faults/test_brokers.py",),
    ("tests/parity/test_migration.py",),
    ("tests/faults/test_leaders.py",),
    # From here on the load is light, and a fixture is shared.
    (
        "tests/integration/test_node_commands.py",
        *(f"tests/integration/test_flow_{name}.py" for name in _ON_THE_SHARED_NODE),
    ),
    ("tests/integration/election/test_*.py",),
    (
        *(f"tests/parity/test_{name}.py" for name in ("checkpoints", "exact_offsets", "handover", "internal_records")),
        *(f"tests/parity/test_{name}.py" for name in ("offset_syncs", "remote_cluster_utils", "topics")),
    ),
    ("tests/integration/client/test_*.py",),
    ("tests/integration/guarded/test_*.py",),
)
"""What one worker plays in a row, by patterns of files: the longest and heaviest first. Any other file is a stage of
its own, and comes after these."""


def stage(file: str) -> int | None:
    """The row of `STAGES` that ``file``, a path from the project's root, belongs to; None if it is one of its own."""
    return next((row for row, names in enumerate(STAGES) if any(fnmatch(file, name) for name in names)), None)


class StageScheduling(LoadFileScheduling):
    """Hands out stages instead of files; otherwise as ``--dist loadfile``."""

    def _split_scope(self, nodeid: str) -> str:
        """What is never shared between two workers: the test's stage, by the first name of its row."""
        file = super()._split_scope(nodeid)
        row = stage(file)
        return file if row is None else STAGES[row][0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        """One worker goes through the stages from the heaviest on, the others from the lightest on, until they meet: so
        a test with several nodes under load has a light neighbour, and nobody begins something long at the end. (xdist
        would begin with the file of most tests, which says little here.)"""
        choose = min if node.gateway.id == HEAVY else max
        self.workqueue.move_to_end(choose(self.workqueue, key=_turn), last=False)
        super()._assign_work_unit(node)


def _turn(name: str) -> int:
    return next((row for row, (first, *_) in enumerate(STAGES) if first == name), len(STAGES))
