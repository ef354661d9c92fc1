"""What a lane logs: warnings as Python does by default, the sizes of its socket buffers, and topics that it created."""

from __future__ import annotations

import logging
import sys

from flows.routing import new_topics
from mm2.core.masking import masked
from mm2.kafka.connection import sockets


class _Masked(logging.Formatter):
    """Formats records without the secrets of this process: a lane has tokens of its own, which the node does not know,
    and on a Spark cluster it writes to the log of its executor."""

    def format(self, record: logging.LogRecord) -> str:
        return masked(super().format(record))


def show_notices() -> None:
    """Write notices to stderr, as the engine writes its log, so that the node logs them too.

    On a Spark cluster they are in the executor's stderr. Spark reuses processes, so this can be called more than once.
    """
    assert logging.lastResort is not None  # the handler of everything else
    logging.lastResort.setFormatter(_Masked())
    for log in (sockets.log, new_topics.log):
        if not log.handlers:
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(_Masked("%(levelname)s %(name)s %(message)s"))
            log.addHandler(handler)
            log.setLevel(logging.INFO)
            log.propagate = False
