"""The settings of a node, from a valid file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from mm2.config.clients.flow_clients import FlowClients
from mm2.config.keys.class_keys import ADMIN
from mm2.config.keys.class_loading import load
from mm2.config.keys.connector_keys import CheckpointSettings, HeartbeatSettings, SourceSettings
from mm2.config.keys.java_converters import JavaConverter
from mm2.config.keys.node_keys import OwnFlowSettings, OwnSettings, RestSettings
from mm2.config.keys.worker_keys import StorageTopics, WorkerSettings
from mm2.config.plugins.filters import NameFilter, OwnFilter, PropertyFilter
from mm2.config.plugins.plugin_reader import AdminChoice
from mm2.config.sql.topic_queries import NO_QUERIES, TopicQueries, TopicQuery
from mm2.core.access.callers import NamedToken
from mm2.core.lanes.lease import TransactionsLease
from mm2.core.naming.names import Flow
from mm2.core.policies import ReplicationPolicy
from mm2.core.settings.election import ElectionSettings
from mm2.core.settings.listener import ListenerSettings
from mm2.core.settings.spark_master import SparkMaster, read_master
from mm2.core.topics.replication_filter import ReplicationFilter

_NO_LIMIT = 2**63 - 1  # as in Java: with transaction.boundary = interval, only time decides


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """One flow. ``enabled``: records are replicated; ``heartbeats``: heartbeats are written to the target, even if the
    flow is not enabled. ``queries``: what is done with the records of some topics. ``election``: settings of leader
    election; None: the flow's Kafka group. ``converters``: those with which Java would change records.
    ``takes_commands``: operators can send commands to it (mm2.rest.admin)."""

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
    queries: TopicQueries = NO_QUERIES
    election: ElectionSettings | None = None
    converters: tuple[JavaConverter, ...] = ()
    takes_commands: bool = False

    @property
    def aliases(self) -> Flow:
        """The aliases of the clusters in topic names, source offsets, offset syncs, checkpoints and heartbeats."""
        return self.source.aliases(self.flow)

    @property
    def transactions(self) -> TransactionsLease | None:
        """When source tasks commit their transactions; None: they write without transactions."""
        if not self.worker.exactly_once:
            return None
        timeout_ms = self.clients.produce.transaction_timeout_ms
        if self.source.transaction_boundary == "poll":
            return TransactionsLease(timeout_ms=timeout_ms)
        interval_ms = self.source.transaction_boundary_interval_ms
        return TransactionsLease(
            interval_ms=max(1, self.worker.offset_flush_interval_ms if interval_ms is None else interval_ms),
            max_bytes=_NO_LIMIT,
            timeout_ms=timeout_ms,
        )

    @property
    def replication_filter(self) -> ReplicationFilter:
        """The topics that the flow replicates."""
        return ReplicationFilter(
            aliases=self.aliases,
            policy=self.policy,
            selects=self.topic_filter,
            replicate_heartbeats=self.source.heartbeats_replication_enabled,
        )

    def query_of(self, topic: str) -> TopicQuery | None:
        """Return the query that transforms the records of a source topic; None: they are copied as they are.

        Heartbeats are never transformed, because nodes read them. Raises PluginError if a custom policy fails, or if a
        regular expression takes too long for the name.
        """
        query = self.queries.of_topic(topic)
        return None if query is None or self.policy.is_heartbeats_topic(topic) else query

    @property
    def admin_class(self) -> Callable[[Any], Any]:
        """Returns a `mm2.kafka.admin.ClusterAdmin` for a `mm2.kafka.client.cluster.Cluster`, which creates and changes
        topics and ACLs. Imported on first use, because this package must not import Kafka clients."""
        if self.admin.own is None:
            return cast("Callable[[Any], Any]", load(ADMIN.base))
        return partial(
            load("mm2.kafka.admin.guarded_admin:GuardedAdmin"), self.admin.name, self.admin.own, self.admin.properties
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """A node: its flows, in the order of ``clusters``, and its own settings. ``spark`` is passed to the Spark session
    unchanged; it can contain passwords. ``hidden_spark``: the names of those that no other user may see, because their
    names say so, or because a config provider returned them. ``credentials``: contents of the files that clients read
    again, in base64, for lanes on other machines. ``tokens``: those of mm2.rest.tokens.file."""

    path: Path
    clusters: tuple[str, ...]
    flows: tuple[FlowSettings, ...]
    rest: RestSettings
    listening: ListenerSettings
    own: OwnSettings
    spark: Mapping[str, str] = field(repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    hidden_spark: frozenset[str] = frozenset()
    tokens: tuple[NamedToken, ...] = ()

    @property
    def master(self) -> SparkMaster:
        """The Spark master, which runs the lanes."""
        return read_master(self.spark.get("spark.master", "local"))
