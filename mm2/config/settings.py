"""What a node runs on, after everything about the file has been found good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from mm2.config.class_loading import load
from mm2.config.class_names import ADMIN
from mm2.config.connectors import CheckpointSettings, HeartbeatSettings, SourceSettings
from mm2.config.filters import NameFilter, OwnFilter, PropertyFilter
from mm2.config.flow_clients import FlowClients
from mm2.config.node_keys import OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.problems import Problem
from mm2.config.worker import StorageTopics, WorkerSettings
from mm2.core.listener_settings import ListenerSettings
from mm2.core.names import Flow
from mm2.core.policies import ReplicationPolicy
from mm2.core.spark_master import SparkMaster, read_master
from mm2.core.zookeeper_settings import ZooKeeperSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminChoice:
    """forwarding.admin.class: its ``name`` in the file, and for one of a user's ``own`` the class and what it is told
    about the flow."""

    name: str
    own: type[Any] | None
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """One flow. ``enabled``: records are replicated; ``heartbeats``: heartbeats are written into the target, which
    flows that are not enabled do too. ``zookeeper``: where its leader is elected; None: by the flow's Kafka group."""

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
    topic_filter: NameFilter | OwnFilter
    group_filter: NameFilter | OwnFilter
    config_property_filter: PropertyFilter | OwnFilter
    admin: AdminChoice
    zookeeper: ZooKeeperSettings | None = None

    @property
    def admin_class(self) -> Callable[[Any], Any]:
        """From a `mm2.kafka.cluster.Cluster` to the `mm2.kafka.admin.ClusterAdmin` that makes and changes topics and
        ACLs there. Imported when asked for, as the configuration knows nothing of Kafka."""
        if self.admin.own is None:
            return cast("Callable[[Any], Any]", load(ADMIN.base))
        return partial(load("mm2.kafka.own_admin:OwnAdmin"), self.admin.name, self.admin.own, self.admin.properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """A node: its flows, in the order of ``clusters``, and what concerns it as a whole. ``spark`` goes to the Spark
    session as it is; it may hold passwords."""

    path: Path
    clusters: tuple[str, ...]
    flows: tuple[FlowSettings, ...]
    rest: RestSettings
    listening: ListenerSettings
    own: OwnSettings
    spark: Mapping[str, str] = field(repr=False)

    @property
    def master(self) -> SparkMaster:
        """Where lanes run."""
        return read_master(self.spark.get("spark.master", "local"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """``settings`` is None when there is an error among ``problems``; warnings leave it."""

    settings: NodeSettings | None
    problems: tuple[Problem, ...]
