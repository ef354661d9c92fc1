"""Changes to a cluster's topics and ACLs; a user's own class can replace them (KIP-787)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mm2.core.topics.acls import Acl
from mm2.core.topics.topic_configs import DeleteConfig, SetConfig
from mm2.kafka.admin import acls as _acls
from mm2.kafka.admin import topic_configs as _topic_configs
from mm2.kafka.admin import topics as _topics
from mm2.kafka.admin.topics import NewTopic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.retrying import API_TIMEOUT_MS

Refusals = dict[str, BrokerError | None]
"""By topic: None on success, or the error."""


class ClusterAdmin:
    """Creates and changes topics, partitions, topic configurations and ACLs, of remote and internal topics alike.

    forwarding.admin.class names a subclass that does this in another way (docs/how-to/extending.md). There is one
    instance for each cluster that a flow changes: the target, and the source if offset syncs are stored there. The node
    calls the methods in its event loop, so they must not block, and again after a failure, so they must be idempotent.
    They raise ClusterError if the request as a whole failed. A topic that a method reports as created is used as soon
    as it appears in the cluster's metadata.
    """

    def __init__(self, cluster: Cluster) -> None:
        """``cluster.settings`` identifies the cluster (alias, bootstrap_servers)."""
        self.cluster = cluster

    async def create_topics(self, topics: Sequence[NewTopic], *, timeout_ms: int = API_TIMEOUT_MS) -> Refusals:
        """Create topics. The error of one that exists already is TOPIC_ALREADY_EXISTS."""
        return await _topics.create_topics(self.cluster, topics, timeout_ms=timeout_ms)

    async def create_partitions(self, totals: Mapping[str, int], *, timeout_ms: int = API_TIMEOUT_MS) -> Refusals:
        """Grow topics to ``totals`` partitions."""
        return await _topics.create_partitions(self.cluster, totals, timeout_ms=timeout_ms)

    async def alter_topic_configs(
        self, changes: Mapping[str, Sequence[SetConfig | DeleteConfig]], *, timeout_ms: int = API_TIMEOUT_MS
    ) -> Refusals:
        """Change only these configs of these topics; of each topic, all changes are applied or none."""
        return await _topic_configs.alter_topic_configs(self.cluster, changes, timeout_ms=timeout_ms)

    async def create_acls(
        self, acls: Sequence[Acl], *, timeout_ms: int = API_TIMEOUT_MS
    ) -> dict[Acl, BrokerError | None]:
        """Create ACLs; one that exists already counts as created. The result is by ACL."""
        return await _acls.create_acls(self.cluster, acls, timeout_ms=timeout_ms)
