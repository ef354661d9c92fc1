"""What a node runs on, after everything about the file has been found good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mm2.config.connectors import CheckpointSettings, HeartbeatSettings, SourceSettings
from mm2.config.filters import NameFilter, PropertyFilter
from mm2.config.flow_clients import FlowClients
from mm2.config.node_keys import OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.problems import Problem
from mm2.config.worker import StorageTopics, WorkerSettings
from mm2.core.names import Flow
from mm2.core.policies import ReplicationPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """One flow. ``enabled``: records are replicated; ``heartbeats``: heartbeats are written into the target, which
    flows that are not enabled do too."""

    flow: Flow
    enabled: bool
    heartbeats: bool
    source: SourceSettings
    checkpoint: CheckpointSettings
    heartbeat: HeartbeatSettings
    worker: WorkerSettings
    storage: StorageTopics
    own: OwnFlowSettings
    clients: FlowClients
    policy: ReplicationPolicy
    topic_filter: NameFilter
    group_filter: NameFilter
    config_property_filter: PropertyFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """A node: its flows, in the order of ``clusters``, and what concerns it as a whole. ``spark`` goes to the Spark
    session as it is; it may hold passwords."""

    path: Path
    clusters: tuple[str, ...]
    flows: tuple[FlowSettings, ...]
    rest: RestSettings
    own: OwnSettings
    spark: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """``settings`` is None when there is an error among ``problems``; warnings leave it."""

    settings: NodeSettings | None
    problems: tuple[Problem, ...]
