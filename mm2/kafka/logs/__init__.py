"""Small compacted topics that store state: reading them, and writing them with or without transactions.

Replicated topics are read and written by `flows`.
"""
