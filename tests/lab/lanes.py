"""The Python processes of Spark in a node: the daemon that forks, and the lanes it forked."""

from __future__ import annotations

import psutil

from tests.lab.node import ROLES, Node


def daemons(node: Node) -> list[psutil.Process]:
    """Spark's process that forks the workers: one, while Spark is well. Orphaned workers would count here."""
    return [one for one in node.members("worker") if not _is_forked(one)]


def lanes(node: Node) -> list[psutil.Process]:
    """Return the processes that copy records."""
    return [one for one in node.members("worker") if _is_forked(one)]


def _is_forked(worker: psutil.Process) -> bool:
    try:
        parent = worker.parent()
        return parent is not None and ROLES["worker"] in " ".join(parent.cmdline())
    except psutil.NoSuchProcess:
        return False
