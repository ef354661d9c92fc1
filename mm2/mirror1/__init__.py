"""``kafka-mirror-maker``: MirrorMaker 1's behaviour on the lanes of a node.

There is no flow with internal topics. Each stream (`stream`) is a member of the consumer group on its source, copies
the partitions that the group assigns to it in a lane (`stream_leases`), and commits the positions that the lane reports
(`stream_reports`). `process` runs them; `engine` starts Spark and serves the leases; `topics` finds the topics of the
source and creates those of the target.
"""
