"""What a lane logs: warnings as Python does by default, and the sizes of its socket buffers."""

from __future__ import annotations

import logging
import sys

from mm2.kafka.connection import sockets


def show_socket_buffers() -> None:
    """Write the granted sizes to stderr, as the engine writes its log, so that the node logs them too.

    On a Spark cluster they are in the executor's stderr. Spark reuses processes, so this can be called more than once.
    """
    if not sockets.log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        sockets.log.addHandler(handler)
        sockets.log.setLevel(logging.INFO)
        sockets.log.propagate = False
