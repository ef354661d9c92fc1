"""Kafka's MirrorClient and RemoteClusterUtils for Python: what is replicated to a cluster, and the positions of another
cluster's consumer groups on it. docs/reference/client.md describes the API, docs/how-to/failover.md its use."""

from mm2.client.config import ConfigInvalid, MirrorClientConfig
from mm2.client.mirror_client import AsyncMirrorClient, CheckpointsIncomplete, MirrorClient, NoCheckpoints
from mm2.client.offsets import OffsetAndMetadata
from mm2.core.naming.names import TopicPartition
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
