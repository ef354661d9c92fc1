"""How deep a change of the file goes into a running node; each key says it in its declaration (`mm2.config.keys`)."""

from __future__ import annotations

from enum import IntEnum


class Reach(IntEnum):
    """Ordered: what needs more counts for all that changed together."""

    NOTHING = 0
    """It means the same as before, or nothing at all: a comment, another way to write it, a key nobody reads."""

    RUNNING = 1
    """Taken over while records go on being copied: the next round, lease or topic made follows it."""

    FLOW = 2
    """The flow drains and starts again, with other connections, names or slots of its own. Other flows go on."""

    NODE = 3
    """In force when the node is started again: sockets, the Spark session, and what was made once from them."""
