"""Which topics a flow replicates, and the partitions, configurations and ACLs of its remote topics.

Names come from `mm2.core.naming`; `mm2.node.leader` sends the requests to the clusters.
"""
