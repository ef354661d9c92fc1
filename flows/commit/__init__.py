"""Commits of acknowledged batches: source offsets, offset syncs and exact offsets."""
