"""Start of every process of the data plane: none outlives its parent."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
INIT = 1  # the parent of orphans


@contextmanager
def starting_worker() -> Iterator[None]:
    """Prepare a Python worker of Spark for its task, whose modules are imported inside this context.

    Ends the process if Spark's daemon, which forked it, has ended already.
    """
    end_with_parent()
    if is_orphan(os.getppid(), os.getpgrp()):
        os._exit(1)
    gc.disable()  # imported modules are not garbage, and examining them takes a quarter of the CPU of an import
    try:
        yield
    finally:
        gc.enable()


class RetriedError(Exception):
    """Spark runs the task of a lane again."""


def reject_retry(lane: int) -> None:
    """Raise RetriedError in a task that Spark runs again: the token of its lane grants one session.

    So its job ends, and the node orders a new run with a new token. Spark does not retry tasks that fail
    (`mm2.node.engine.spark_settings`), but it runs those of an executor again that a cluster took away.
    """
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise RetriedError(f"lane {lane}: Spark lost its executor")


def is_orphan(parent: int, group: int) -> bool:
    """Return whether the process that forked us has ended.

    In a container, the executor's JVM that forked us can itself be process 1; then we are in its process group.
    """
    return parent == INIT and group != INIT


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent dies (Linux only).

    So no worker outlives its JVM, and no engine its node.
    """
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)
