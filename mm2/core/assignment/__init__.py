"""Assignment: partitions to source tasks, groups to checkpoint tasks, tasks to nodes, and the records that publish it.

`mm2.election` contains the elections; `mm2.node` runs the assigned tasks.
"""
