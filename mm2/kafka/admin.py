"""What makes and changes things on a cluster, and the place where a user's own class can do it instead (KIP-787)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mm2.core.acls import Acl
from mm2.core.topic_configs import DeleteConfig, SetConfig
from mm2.kafka import acls as _acls
from mm2.kafka import topic_configs as _topic_configs
from mm2.kafka import topics as _topics
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.kafka.topics import NewTopic

Refusals = dict[str, BrokerError | None]
"""By topic: None for done, else why not."""


class ClusterAdmin:
    """Every topic, partition, configuration and ACL that a flow makes or changes goes through one of these methods,
    remote topics and internal topics alike.

    forwarding.admin.class names a subclass that does it another way (docs/extending.md). There is one for each cluster
    that something is made on, the source too where offset syncs live there. Methods are called in the node's event
    loop, so they must not block it, and again after a failure, so they must not mind repetition. They raise
    ClusterError when nothing could be done at all. A topic that a method reports as created is used once the cluster
    has it.
    """

    def __init__(self, cluster: Cluster) -> None:
        """``cluster.settings`` says which cluster it is (alias, bootstrap_servers)."""
        self.cluster = cluster

    async def create_topics(self, topics: Sequence[NewTopic], *, timeout_ms: int = API_TIMEOUT_MS) -> Refusals:
        """One that is there already is refused with TOPIC_ALREADY_EXISTS."""
        return await _topics.create_topics(self.cluster, topics, timeout_ms=timeout_ms)

    async def create_partitions(self, totals: Mapping[str, int], *, timeout_ms: int = API_TIMEOUT_MS) -> Refusals:
        """Grow topics to ``totals`` partitions."""
        return await _topics.create_partitions(self.cluster, totals, timeout_ms=timeout_ms)

    async def alter_topic_configs(
        self, changes: Mapping[str, Sequence[SetConfig | DeleteConfig]], *, timeout_ms: int = API_TIMEOUT_MS
    ) -> Refusals:
        """Change these configs of these topics and no others; all changes of a topic or none."""
        return await _topic_configs.alter_topic_configs(self.cluster, changes, timeout_ms=timeout_ms)

    async def create_acls(
        self, acls: Sequence[Acl], *, timeout_ms: int = API_TIMEOUT_MS
    ) -> dict[Acl, BrokerError | None]:
        """One that is there already is no trouble. The answer is by ACL."""
        return await _acls.create_acls(self.cluster, acls, timeout_ms=timeout_ms)
