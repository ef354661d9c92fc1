"""The effective settings of a node after a reload: the new ones, except those that need a restart of the node."""

from __future__ import annotations

from dataclasses import replace

from mm2.config.grammar.problems import ProblemLog
from mm2.config.keys.election_keys import read_elections
from mm2.config.reload.comparison import ParsedConfig
from mm2.config.settings import NodeSettings


def in_force(began: ParsedConfig, now: ParsedConfig) -> NodeSettings:
    """Return the settings of a node that started with ``began`` and has loaded ``now``. Elections need a restart of the
    node, so all flows, including added ones, use those of ``began``."""
    bare = tuple(replace(flow, election=None) for flow in now.settings.flows)
    return replace(
        began.settings,
        clusters=now.settings.clusters,
        flows=read_elections(bare, began.file.properties, ProblemLog("")),  # a valid file
        own=began.settings.own.model_copy(update={"log_level": now.settings.own.log_level}),
    )
