"""What to restart in a running node after a change of a setting; part of each key's declaration."""

from __future__ import annotations

from enum import IntEnum


class UpdateMode(IntEnum):
    """Ordered: the highest one applies to all settings that changed together."""

    NOTHING = 0
    """Nothing: a comment, the same value written differently, or a key that is not read."""

    RUNNING = 1
    """Nothing: it applies to the next run, lease or created topic, while records continue to be copied."""

    FLOW = 2
    """The flow: it drains and restarts with new connections, names or source tasks. Other flows continue."""

    NODE = 3
    """The node, which an operator restarts: listeners, the Spark session, and everything that is created once."""
