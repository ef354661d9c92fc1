"""Positions of a source partition on the target, and of a remote partition on the source.

A position is the next offset that a reader reads. `mm2.node.checkpoint` reads the exact offset map for it.
"""
