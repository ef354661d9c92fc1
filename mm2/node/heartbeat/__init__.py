"""The heartbeat task."""
