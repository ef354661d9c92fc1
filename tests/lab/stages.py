"""Order of a parallel run (pytest-xdist): which files stay on one worker, and which worker runs what first.

A fixture of a directory is created once in each worker that gets a file of that directory, and again whenever the
worker comes back to it. Files that share such a fixture are therefore one stage: they run in a row on one worker.
Every other file is a stage of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

DURATIONS = Path(__file__).parents[1] / "durations.json"  # seconds by file; `make durations` rewrites it
UNKNOWN_S = 20.0  # a file that is not listed yet: the median of the files on real brokers
HEAVY_WORKER = "gw0"  # xdist's name of the first worker
HEAVY = "tests/faults/"

_ON_THE_SHARED_NODE = (
    *("copy", "discovery", "groups", "heartbeats", "internal_topics"),
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


def stage(file: str) -> str:
    """Return the name of the stage of ``file``, a path relative to the project's root."""
    return next((names[0] for names in STAGES if any(fnmatch(file, name) for name in names)), file)


@cache
def seconds_by_stage() -> Mapping[str, float]:
    """Return the duration of each stage when durations were last stored."""
    found: dict[str, float] = {}
    for file, seconds in json.loads(DURATIONS.read_text()).items():
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
            return name.startswith(HEAVY) == prefers_heavy, seconds_by_stage().get(name, UNKNOWN_S)

        self.workqueue.move_to_end(max(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)
