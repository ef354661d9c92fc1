"""The checkpoint tasks: finding groups, translating and writing checkpoints, and syncing group offsets."""
