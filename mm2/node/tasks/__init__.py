"""The tasks of a flow: source and heartbeat (checkpoints come later)."""
