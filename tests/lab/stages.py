"""Order of a parallel run (pytest-xdist): which files stay on one worker, and which worker runs what first.

A fixture of a directory is created once in each worker that gets a file of that directory, and again whenever the
worker comes back to it. Files that share such a fixture are therefore one stage: they run in a row on one worker.
Every other file is a stage of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.lab import durations

HEAVY_WORKER = "gw0"  # xdist's name of the first worker
HEAVY = "tests/faults/"
FIRST = {"tests/snapshots/test_advice_applied.py": 15.0}  # seconds of fast stages that would run alone at the end

_ON_THE_SHARED_NODE = (
    *("copy", "copy_again", "discovery", "groups", "heartbeats", "internal_topics"),
    *("names", "offset_syncs", "offsets", "remote_topics", "topic_configs"),
)

STAGES: tuple[tuple[str, ...], ...] = (
    (
        "tests/integration/test_node_commands.py",
        "tests/integration/test_socket_buffers.py",
        *(f"tests/integration/test_flow_{name}.py" for name in _ON_THE_SHARED_NODE),
    ),
    ("tests/integration/consumer_group/test_*.py",),
    ("tests/integration/election/test_*.py",),
    (
        *(f"tests/parity/test_{name}.py" for name in ("checkpoints", "exact_offsets", "handover", "internal_records")),
        *(f"tests/parity/test_{name}.py" for name in ("offset_syncs", "remote_cluster_utils", "topics")),
    ),
    ("tests/integration/client/test_*.py",),
    (
        *(f"tests/integration/node/test_{name}.py" for name in ("config_writer", "source_task_fence")),
        "tests/integration/node/test_strict_fencing.py",
    ),
    ("tests/integration/guarded/test_*.py",),
    ("tests/integration/access/test_*.py",),
    ("tests/integration/queries/test_*.py",),
    ("tests/integration/sql/test_*.py",),
)
"""Files that share a costly fixture, by patterns. `tests/unit/lab/test_stages.py` fails when one is missing."""

LONGEST_S = 120.0  # seconds of a stage: one that starts last delays the end of the run by this

LONGER: dict[str, str] = {
    "tests/integration/test_node_commands.py": "one node for eleven files: a second one costs 10 s of CPU",
    "tests/integration/election/test_*.py": "one ZooKeeper with brokers for all backends",
    "tests/integration/access/test_*.py": "one secured pair of clusters; most of it is one test that grants ACL by ACL",
    "tests/integration/queries/test_*.py": "one node with SQL lanes",
    "tests/parity/test_checkpoints.py": "one Java MirrorMaker, which takes a minute to start and settle",
    "tests/faults/test_what_operators_see.py": "an outage lasts 38 s, as /health waits for 30 s; that takes little CPU",
    "tests/faults/test_each_kind.py": "two nodes for one fault of each kind: a second pair costs 30 s of CPU",
}
"""Stages that may take longer than `LONGEST_S`, and why they are not split."""


def stage(file: str) -> str:
    """Return the name of the stage of ``file``, a path relative to the project's root."""
    return next((names[0] for names in STAGES if any(fnmatch(file, name) for name in names)), file)


@cache
def seconds_by_stage() -> Mapping[str, float]:
    """Return the duration of each stage when durations were last stored. Of the fast ones, only `FIRST` have one."""
    found = dict(FIRST)
    for file, seconds in durations.stored().items():
        found[stage(file)] = found.get(stage(file), 0.0) + seconds
    return found


class StageScheduling(LoadFileScheduling):
    """Distributes stages instead of files, the longest first; otherwise as ``--dist loadfile``.

    The first worker starts with the tests of `HEAVY`, which load both cores; the others start with the rest. A heavy
    test therefore runs next to light ones as long as there are any.
    """

    def _split_scope(self, nodeid: str) -> str:
        """The test's stage: never shared between two workers."""
        return stage(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: WorkerController) -> None:
        prefers_heavy = node.gateway.id == HEAVY_WORKER

        def rank(name: str) -> tuple[bool, float]:
            return name.startswith(HEAVY) == prefers_heavy, seconds_by_stage().get(name, 0.0)

        self.workqueue.move_to_end(max(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)
