"""Records that are written one by one: to the partition of their key, or as a user's message handler says.

`router` is the transform of a partition (`flows.partition.frame_transform`): it writes the records of fetched batches
with a producer of its own, and the partition then moves over them. `partition_router` loads and calls message handlers,
`made_records` decodes frames for them, `record_sender` chooses the partition on the target, `new_topics` creates the
topics that handlers name, and `partition_router` keeps the order of one source partition.
"""
