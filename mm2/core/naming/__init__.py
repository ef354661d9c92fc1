"""Names: flows, topic-partitions, remote topics, heartbeat paths and internal topics.

`mm2.core.topics` decides which topics are created under these names.
"""
