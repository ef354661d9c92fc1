"""Source tasks on this node: leases, reports to the leader, and stored offsets.

The records are copied by the package `flows`.
"""
