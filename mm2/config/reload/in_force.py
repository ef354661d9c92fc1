"""The effective settings of a node after a reload: the new ones, except those that need a restart of the node."""

from __future__ import annotations

from dataclasses import replace

from mm2.config.grammar.problems import ProblemLog
from mm2.config.keys.election_keys import read_elections
from mm2.config.reload.comparison import ParsedConfig
from mm2.config.settings import NodeSettings
from mm2.core.settings.listener import ListenerSettings


def in_force(began: ParsedConfig, now: ParsedConfig) -> NodeSettings:
    """Return the settings of a node that started with ``began`` and has loaded ``now``. Elections need a restart of the
    node, so all flows, including added ones, use those of ``began``. Listeners take over renewed certificates and keys,
    but no other settings."""
    bare = tuple(replace(flow, election=None) for flow in now.settings.flows)
    return replace(
        began.settings,
        clusters=now.settings.clusters,
        credentials=now.settings.credentials,
        flows=read_elections(bare, began.file.properties, ProblemLog("")),  # a valid file
        listening=_renewed(began.settings.listening, now.settings.listening),
        own=began.settings.own.model_copy(update={"log_level": now.settings.own.log_level}),
    )


def _renewed(began: ListenerSettings, now: ListenerSettings) -> ListenerSettings:
    if began.peers is None or now.peers is None:
        return began
    tls = replace(
        began.peers,
        ca_pem=now.peers.ca_pem,
        certificate_pem=now.peers.certificate_pem,
        key_pem=now.peers.key_pem,
        key_password=now.peers.key_password,
    )
    if began.tls is None:
        return replace(began, peers=tls)
    return replace(began, peers=tls, tls=replace(began.tls, tls=tls))
