"""Offset translation: the exact offset map, offset syncs, checkpoints, group offsets and source offsets.

`mm2.node.checkpoint` and `flows.commit` read and write these records.
"""
