"""The status of a node: the model, its builder, and progress and ownership of partitions.

It is served as JSON by `mm2.rest`.
"""
