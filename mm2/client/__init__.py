"""Kafka's MirrorClient and RemoteClusterUtils for Python: what is replicated to a cluster, and the positions of another
cluster's consumer groups on it; and clients that translate any position of a flow.

docs/reference/client.md describes the API, docs/how-to/failover.md its use.
"""

from mm2.client.config import ConfigInvalid, MirrorClientConfig
from mm2.client.mirror_client import AsyncMirrorClient, CheckpointsIncomplete, MirrorClient, NoCheckpoints
from mm2.client.offsets import OffsetAndMetadata
from mm2.client.positions import AsyncPositionClient, PositionClient
from mm2.core.naming.names import TopicPartition
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.positions.answer import Precision
from mm2.core.positions.position_names import PositionRejectedError
from mm2.core.positions.positions import Position, PositionAnswers, PositionsUnreadableError, TranslatedPosition
from mm2.kafka.errors import AuthenticationRefused, BrokerError, ClusterError, TlsRefused, Unreachable

__all__ = [
    "AsyncMirrorClient",
    "AsyncPositionClient",
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
    "Position",
    "PositionAnswers",
    "PositionClient",
    "PositionRejectedError",
    "PositionsUnreadableError",
    "Precision",
    "ReplicationPolicy",
    "TlsRefused",
    "TopicPartition",
    "TranslatedPosition",
    "Unreachable",
]
