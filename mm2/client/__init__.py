"""Kafka's MirrorClient and RemoteClusterUtils for Python programs: what is replicated to a cluster, and where the
consumer groups of another cluster go on in it. docs/client.md shows how to use it, docs/failover.md what for."""

from mm2.client.config import ConfigInvalid, MirrorClientConfig
from mm2.client.errors import CheckpointsIncomplete, NoCheckpoints
from mm2.client.mirror_client import MirrorClient
from mm2.client.mirror_client_async import AsyncMirrorClient
from mm2.client.offsets import OffsetAndMetadata
from mm2.core.names import TopicPartition
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.kafka.errors import AuthenticationRefused, BrokerError, ClusterError, TlsRefused, Unreachable

__all__ = [
    "AsyncMirrorClient",
    "AuthenticationRefused",
    "BrokerError",
    "CheckpointsIncomplete",
    "ClusterError",
    "ConfigInvalid",
    "DefaultReplicationPolicy",
    "IdentityReplicationPolicy",
    "MirrorClient",
    "MirrorClientConfig",
    "NoCheckpoints",
    "OffsetAndMetadata",
    "ReplicationPolicy",
    "TlsRefused",
    "TopicPartition",
    "Unreachable",
]
