"""What a running node lives by after its file has changed: all of the new one, but what reaches the node as a whole."""

from __future__ import annotations

from dataclasses import replace

from mm2.config.comparison import Reading
from mm2.config.electing import read_elections
from mm2.config.problems import ProblemLog
from mm2.config.settings import NodeSettings


def in_force(began: Reading, now: Reading) -> NodeSettings:
    """The settings of a node that was started on ``began`` and has read ``now``. What of `Reach.NODE` is made into a
    part of a flow, elections, is that of the start too, for flows that came later as well."""
    bare = tuple(replace(flow, zookeeper=None) for flow in now.settings.flows)
    return replace(
        began.settings,
        clusters=now.settings.clusters,
        flows=read_elections(bare, began.file.properties, ProblemLog("")),  # which was found good
        own=began.settings.own.model_copy(update={"log_level": now.settings.own.log_level}),
    )
