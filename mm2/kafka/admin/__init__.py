"""Administration of a cluster: topics, configurations and ACLs.

`ClusterAdmin` may be replaced by a user's class (KIP-787).
"""

from mm2.kafka.admin.cluster_admin import ClusterAdmin

__all__ = ["ClusterAdmin"]
