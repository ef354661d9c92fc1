"""Messages between a node and its lanes: leases, progress and task states.

`mm2.core.assignment` contains the assignments between nodes.
"""
